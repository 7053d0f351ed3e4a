#include "tools/lockstep/train/training_outlook.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/text/count_of.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {
namespace {

std::string precision_of(const TrainingArguments& args) {
  if (args.bf16) return "bf16";
  return args.fp16 ? "fp16" : "fp32";
}

}  // namespace

std::string training_start_text(const TrainingArguments& args, const TrainerState& state) {
  const auto group = is_initialized() ? default_group() : nullptr;
  const std::int64_t ranks = group ? group->world_size() : 1;
  std::string text = ranks > 1 ? count_of(ranks, "rank") + ", engine " + std::string(group->engine()) + ", "
                               : std::string("one process, ");
  text += count_of(at::get_num_threads(), "thread") + (ranks > 1 ? " each, " : ", ") + precision_of(args);
  const std::int64_t parts = args.virtual_shards > 0 ? args.virtual_shards : ranks;
  const std::int64_t samples = state.train_batch_size * parts * args.gradient_accumulation_steps;
  text += fmt::format(": {} of {}", count_of(state.max_steps, "update"), count_of(samples, "sample"));
  if (state.global_step > 0) text += fmt::format(", {} of them done", state.global_step);
  return text;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

void TrainingOutlook::on_train_begin(TrainerEvent& event) {
  first_end_.reset();
  if (!event.state.is_world_process_zero || !say_start_) return;
  say_start_(training_start_text(event.args, event.state));
}

void TrainingOutlook::on_step_end(TrainerEvent& event) {
  constexpr std::int64_t kMeasured = 10;
  constexpr std::chrono::seconds kLongEnough{5};
  constexpr double kWorthALine = 60;
  if (!event.state.is_world_process_zero || !say_time_) return;
  const std::int64_t step = event.state.global_step;
  const Clock::time_point now = now_();
  if (!first_end_) {
    first_step_ = step;
    first_end_ = now;
  }
  const std::int64_t steps = step - first_step_;
  if (steps < kMeasured || now - *first_end_ < kLongEnough) return;
  const double each = std::chrono::duration<double>(now - *first_end_).count() / static_cast<double>(steps);
  const double left = each * static_cast<double>(event.state.max_steps - step);
  if (left >= kWorthALine) {
    say_time_(fmt::format("About {} to go: {} of {} s, and evaluations", time_text(left),
                          count_of(event.state.max_steps - step, "update"),
                          each < 100 ? fmt::format("{:.2g}", each) : fmt::format("{:.0f}", each)));
  }
  say_time_ = nullptr;
}

}  // namespace lockstep
