#include "lockstep/optim/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"

namespace lockstep {
namespace {

constexpr double kPi = 3.14159265358979323846;

[[noreturn]] void refuse_schedule(const std::string& what, const std::string& name, const std::string& fix) {
  throw Error(what, "learning-rate schedule " + name, fix);
}

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

double cosine_wave(double cycles, double progress) { return 0.5 * (1 + std::cos(kPi * cycles * 2 * progress)); }

/// Warm-up from 0, which all schedules but two share; then `after`, called with the fraction of the rest that is done.
Schedule after_warmup(const ScheduleOptions& o, std::function<double(double progress)> after) {
  const std::int64_t warmup = o.num_warmup_steps;
  const std::int64_t rest = o.num_training_steps - warmup;
  return [warmup, rest, after = std::move(after)](std::int64_t step) {
    return step < warmup ? ratio(step, warmup) : after(ratio(step - warmup, rest));
  };
}

double cycles_or(const ScheduleOptions& o, double fallback) { return o.num_cycles == -1 ? fallback : o.num_cycles; }

Schedule constant(const ScheduleOptions&) {
  return [](std::int64_t) { return 1.0; };
}

Schedule constant_with_warmup(const ScheduleOptions& o) {
  return [warmup = o.num_warmup_steps](std::int64_t step) { return step < warmup ? ratio(step, warmup) : 1.0; };
}

Schedule linear(const ScheduleOptions& o) {
  const std::int64_t warmup = o.num_warmup_steps;
  const std::int64_t total = o.num_training_steps;
  return [warmup, total](std::int64_t step) {
    return step < warmup ? ratio(step, warmup) : std::max(0.0, ratio(total - step, total - warmup));
  };
}

Schedule cosine(const ScheduleOptions& o) {
  return after_warmup(
      o, [cycles = cycles_or(o, 0.5)](double progress) { return std::max(0.0, cosine_wave(cycles, progress)); });
}

Schedule cosine_with_restarts(const ScheduleOptions& o) {
  return after_warmup(o, [cycles = cycles_or(o, 1)](double progress) {
    return progress >= 1 ? 0.0 : std::max(0.0, 0.5 * (1 + std::cos(kPi * std::fmod(cycles * progress, 1.0))));
  });
}

Schedule polynomial(const ScheduleOptions& o) {
  if (!(o.lr_init > o.lr_end)) {
    refuse_schedule(fmt::format("lr_end {} is not below the initial rate {}", o.lr_end, o.lr_init), "polynomial",
                    "set lr_init to the optimizer's lr, and lr_end below it");
  }
  return [o](std::int64_t step) {
    if (step < o.num_warmup_steps) return ratio(step, o.num_warmup_steps);
    if (step > o.num_training_steps) return o.lr_end / o.lr_init;
    const double left = 1 - ratio(step - o.num_warmup_steps, o.num_training_steps - o.num_warmup_steps);
    return ((o.lr_init - o.lr_end) * std::pow(left, o.power) + o.lr_end) / o.lr_init;
  };
}

Schedule inverse_sqrt(const ScheduleOptions& o) {
  const std::int64_t warmup = o.num_warmup_steps;
  const std::int64_t timescale = o.timescale != -1 ? o.timescale : (warmup > 0 ? warmup : 10000);
  if (timescale <= 0) refuse_schedule(fmt::format("timescale is {}", timescale), "inverse_sqrt", "set it above 0");
  return [warmup, timescale](std::int64_t step) {
    if (step < warmup) return ratio(step, warmup);
    return 1 / std::sqrt(static_cast<double>(step + timescale - warmup) / static_cast<double>(timescale));
  };
}

double least_rate(const ScheduleOptions& o, const std::string& name) {
  if ((o.min_lr == -1) == (o.min_lr_rate == -1)) {
    refuse_schedule(o.min_lr == -1 ? "neither min_lr nor min_lr_rate is set" : "both min_lr and min_lr_rate are set",
                    name, "set one of them");
  }
  if (o.min_lr_rate != -1) return o.min_lr_rate;
  if (!(o.lr_init > 0)) refuse_schedule("min_lr is set without lr_init", name, "set lr_init to the optimizer's lr");
  return o.min_lr / o.lr_init;
}

Schedule cosine_with_min_lr(const ScheduleOptions& o) {
  const double least = least_rate(o, "cosine_with_min_lr");
  return after_warmup(o, [least, cycles = cycles_or(o, 0.5)](double progress) {
    return std::max(0.0, cosine_wave(cycles, progress) * (1 - least) + least);
  });
}

// Counts steps from their end: the first one is already part of the warm-up, and the last one is at the minimum.
Schedule cosine_warmup_with_min_lr(const ScheduleOptions& o) {
  const double least = least_rate(o, "cosine_warmup_with_min_lr");
  const double cycles = cycles_or(o, 0.5);
  return [o, least, cycles](std::int64_t step) {
    const std::int64_t warmup = o.num_warmup_steps;
    if (step < warmup && o.warmup_lr_rate == -1) return ratio(step + 1, warmup);
    if (step < warmup) return o.warmup_lr_rate + (1 - o.warmup_lr_rate) * ratio(step, warmup - 1);
    const double progress = ratio(step - warmup + 1, o.num_training_steps - warmup);
    return std::max(0.0, cosine_wave(cycles, progress) * (1 - least) + least);
  };
}

// 0 to 1 over the warm-up, in one of three shapes.
double rise(const std::string& shape, double progress) {
  if (shape == "linear") return progress;
  if (shape == "cosine") return 0.5 * (1 - std::cos(kPi * progress));
  return 1 - std::sqrt(1 - progress);
}

double fall(const std::string& shape, double progress, double cycles) {
  if (shape == "linear") return 1 - progress;
  if (shape == "cosine") return cosine_wave(cycles, progress);
  return 1 - std::sqrt(progress);
}

Schedule warmup_stable_decay(const ScheduleOptions& options) {
  ScheduleOptions o = options;
  const std::string name = "warmup_stable_decay";
  for (const std::string& shape : {o.warmup_type, o.decay_type}) {
    if (shape != "linear" && shape != "cosine" && shape != "1-sqrt") {
      refuse_schedule("there is no shape called " + shape, name, "choose linear, cosine or 1-sqrt");
    }
  }
  if (o.num_decay_steps < 0) refuse_schedule("num_decay_steps is not set", name, "set it");
  if (o.num_stable_steps < 0 && o.num_training_steps < 0) {
    refuse_schedule("neither num_stable_steps nor num_training_steps is set", name, "set one of them");
  }
  if (o.num_stable_steps < 0) o.num_stable_steps = o.num_training_steps - o.num_warmup_steps - o.num_decay_steps;
  o.num_cycles = cycles_or(o, 0.5);
  return [o](std::int64_t step) {
    const auto lifted = [&](double factor) { return std::max(0.0, factor * (1 - o.min_lr_ratio) + o.min_lr_ratio); };
    if (step < o.num_warmup_steps) return lifted(rise(o.warmup_type, ratio(step, o.num_warmup_steps)));
    const std::int64_t decayed = step - o.num_warmup_steps - o.num_stable_steps;
    if (decayed < 0) return 1.0;
    if (decayed >= o.num_decay_steps) return o.min_lr_ratio;
    return lifted(fall(o.decay_type, ratio(decayed, o.num_decay_steps), o.num_cycles));
  };
}

struct Entry {
  const char* name;
  Schedule (*make)(const ScheduleOptions&);
  bool needs_length;
};

constexpr Entry kSchedules[] = {
    {"linear", linear, true},
    {"cosine", cosine, true},
    {"cosine_with_restarts", cosine_with_restarts, true},
    {"polynomial", polynomial, true},
    {"constant", constant, false},
    {"constant_with_warmup", constant_with_warmup, false},
    {"inverse_sqrt", inverse_sqrt, false},
    {"cosine_with_min_lr", cosine_with_min_lr, true},
    {"cosine_warmup_with_min_lr", cosine_warmup_with_min_lr, true},
    {"warmup_stable_decay", warmup_stable_decay, false},
};

}  // namespace

Schedule make_schedule(const std::string& name, const ScheduleOptions& options) {
  for (const Entry& entry : kSchedules) {
    if (name != entry.name) continue;
    if (options.num_warmup_steps < 0) {
      refuse_schedule(fmt::format("num_warmup_steps is {}", options.num_warmup_steps), name, "set it to 0 or more");
    }
    if (entry.needs_length && options.num_training_steps < 0) {
      refuse_schedule("num_training_steps is not set", name, "set it to the number of updates of the whole training");
    }
    return entry.make(options);
  }
  refuse_schedule("there is no such schedule" + did_you_mean(name, schedule_names()), name,
                  fmt::format("choose one of {}", fmt::join(schedule_names(), ", ")));
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kSchedules) all.emplace_back(entry.name);
    return all;
  }();
  return names;
}

}  // namespace lockstep
