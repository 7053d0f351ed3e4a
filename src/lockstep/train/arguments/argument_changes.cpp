#include "lockstep/train/arguments/argument_changes.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep {
namespace {

struct ChangeEffect {
  const char* argument;
  const char* effect;
};

constexpr const char* kOptimizerResumed =
    "the checkpoint's stays in effect, because its optimizer is resumed; to change it, start a new training from its "
    "weights (--model)";
constexpr const char* kOtherBatches = "from here on, updates take different samples than in the run that was stopped";
constexpr const char* kOtherSchedule = "learning rates follow the new schedule from here on";
constexpr const char* kOtherUpdates = "applies from here on";
constexpr const char* kOtherComparison = "the best value so far was found by the checkpoint's";

// In the order of TrainingArguments. Arguments that are not listed change no result: folders, threads, devices,
// reports.
constexpr ChangeEffect kEffects[] = {
    {"per_device_train_batch_size", kOtherBatches},
    {"gradient_accumulation_steps", kOtherBatches},
    {"num_train_epochs", kOtherSchedule},
    {"max_steps", kOtherSchedule},
    {"optim", kOtherUpdates},
    {"learning_rate", kOptimizerResumed},
    {"weight_decay", kOptimizerResumed},
    {"adam_beta1", kOptimizerResumed},
    {"adam_beta2", kOptimizerResumed},
    {"adam_epsilon", kOptimizerResumed},
    {"max_grad_norm", kOtherUpdates},
    {"lr_scheduler_type", kOtherSchedule},
    {"lr_scheduler_kwargs", kOtherSchedule},
    {"warmup_steps", kOtherSchedule},
    {"warmup_ratio", kOtherSchedule},
    {"bf16", kOtherUpdates},
    {"fp16", kOtherUpdates},
    {"label_smoothing_factor", kOtherUpdates},
    {"logging_strategy", kOtherUpdates},
    {"logging_steps", kOtherUpdates},
    {"eval_strategy", kOtherUpdates},
    {"eval_steps", kOtherUpdates},
    {"save_strategy", kOtherUpdates},
    {"save_steps", kOtherUpdates},
    {"metric_for_best_model", kOtherComparison},
    {"greater_is_better", kOtherComparison},
    {"seed",
     "the checkpoint's generators and order of samples continue; with virtual_shards, random numbers follow the new "
     "seed"},
    {"data_seed", "the checkpoint's order of samples continues"},
    {"dataloader_drop_last", kOtherBatches},
    {"group_by_length", "the rest of this epoch is in another order: samples may be taken twice, or not at all"},
    {"replicas", kOtherBatches},
};

std::string change_line(const std::string& name, const nlohmann::json& saved, const nlohmann::json& now,
                        const char* effect) {
  const auto shown = [](const nlohmann::json& value) {
    return value.is_null()           ? std::string("not given")
           : value.is_string()       ? value.get<std::string>()
           : value.is_number_float() ? fmt::format("{}", value.get<double>())
                                     : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return fmt::format("{} is {}, but {} in the checkpoint: {}", name, shown(now), shown(saved), effect);
}

}  // namespace

std::vector<std::string> argument_changes(const nlohmann::json& saved, const nlohmann::json& now) {
  std::vector<std::string> lines;
  for (const ChangeEffect& row : kEffects) {
    const auto before = saved.find(row.argument);
    const auto after = now.find(row.argument);
    if (before == saved.end() || after == now.end() || *before == *after) continue;
    lines.push_back(change_line(row.argument, *before, *after, row.effect));
  }
  return lines;
}

bool is_of_older_form(const nlohmann::json& saved, const std::string& name) {
  const auto found = saved.find(name);
  if (found == saved.end()) return false;
  if (name == "text_column" || name == "label_column") return found->is_string();
  return name == "max_length" && found->is_null();
}

std::vector<std::string> data_argument_changes(const nlohmann::json& saved, const nlohmann::json& now) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : now.items()) {
    const auto before = saved.find(name);
    if (before == saved.end() || *before == value || is_of_older_form(saved, name)) continue;
    lines.push_back(change_line(name, *before, value, "the checkpoint was trained on differently prepared data"));
  }
  return lines;
}

}  // namespace lockstep
