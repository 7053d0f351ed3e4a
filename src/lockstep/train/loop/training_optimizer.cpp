#include "lockstep/train/loop/training_optimizer.h"

#include <fmt/format.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/update/group_options.h"
#include "lockstep/train/early_stopping.h"

namespace lockstep {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

template <typename OptionsType>
Groups decay_groups(TrainableModel& model, const OptionsType& options) {
  std::vector<at::Tensor> decayed;
  std::vector<at::Tensor> plain;
  for (const NamedTensor& parameter : model.tensors().parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    (model.is_decayed(parameter.name) ? decayed : plain).push_back(parameter.tensor);
  }
  Groups groups;
  if (!decayed.empty()) groups.emplace_back(decayed, std::make_unique<OptionsType>(options));
  if (!plain.empty()) {
    OptionsType undecayed = options;
    undecayed.weight_decay(0);
    groups.emplace_back(plain, std::make_unique<OptionsType>(undecayed));
  }
  if (groups.empty()) {
    throw UsageError("the model has no parameter that requires a gradient", "Trainer",
                     "unfreeze the parameters that are to be trained");
  }
  return groups;
}

template <typename Optimizer, typename OptionsType>
std::unique_ptr<FlatOptimizer> make_optimizer(TrainableModel& model, const OptionsType& options) {
  const Groups groups = decay_groups(model, options);
  auto optimizer = std::make_unique<Optimizer>(groups, options);
  set_group_options(*optimizer, groups);
  return optimizer;
}

using ScheduleJson = nlohmann::json;

// Reads a schedule's arguments by name. Any other entry in the user's object is an error.
class ScheduleArguments {
 public:
  ScheduleArguments(const ScheduleJson& json, std::string schedule) : schedule_(std::move(schedule)) {
    if (json.is_object()) json_ = json;
  }
  template <typename T>
  void read(const char* name, T& target) {
    known_.emplace_back(name);
    if (!json_.contains(name) || json_.at(name).is_null()) return;
    try {
      json_.at(name).get_to(target);
    } catch (const ScheduleJson::exception&) {
      throw UsageError(fmt::format("lr_scheduler_kwargs: {} cannot be {}", name, json_.at(name).dump()),
                       "schedule " + schedule_, "give another value");
    }
  }
  void refuse_others() const {
    for (const auto& [name, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      throw UsageError("lr_scheduler_kwargs: there is no '" + name + "'" + did_you_mean(name, known_),
                       "schedule " + schedule_, "leave it out, or name an argument of this schedule");
    }
  }

 private:
  ScheduleJson json_ = ScheduleJson::object();
  std::string schedule_;
  std::vector<std::string> known_;
};

ScheduleOptions schedule_options(const TrainingArguments& args, const TrainingPlan& plan) {
  ScheduleOptions options;
  options.num_warmup_steps = plan.warmup_steps;
  options.num_training_steps = plan.max_steps;
  options.lr_init = args.learning_rate;
  ScheduleArguments own(args.lr_scheduler_kwargs, args.lr_scheduler_type);
  own.read("num_cycles", options.num_cycles);
  own.read("lr_end", options.lr_end);
  own.read("power", options.power);
  own.read("timescale", options.timescale);
  own.read("min_lr", options.min_lr);
  own.read("min_lr_rate", options.min_lr_rate);
  own.read("warmup_lr_rate", options.warmup_lr_rate);
  own.read("num_decay_steps", options.num_decay_steps);
  own.read("num_stable_steps", options.num_stable_steps);
  own.read("warmup_type", options.warmup_type);
  own.read("decay_type", options.decay_type);
  own.read("min_lr_ratio", options.min_lr_ratio);
  own.refuse_others();
  return options;
}

ReduceLROnPlateau::Options plateau_options(const TrainingArguments& args) {
  ReduceLROnPlateau::Options options;
  options.mode = is_greater_better(args) ? "max" : "min";
  ScheduleArguments own(args.lr_scheduler_kwargs, args.lr_scheduler_type);
  own.read("mode", options.mode);
  own.read("factor", options.factor);
  own.read("patience", options.patience);
  own.read("threshold", options.threshold);
  own.read("threshold_mode", options.threshold_mode);
  own.read("cooldown", options.cooldown);
  own.read("min_lr", options.min_lr);
  own.read("eps", options.eps);
  own.refuse_others();
  return options;
}

}  // namespace

std::unique_ptr<FlatOptimizer> make_training_optimizer(const TrainingArguments& args, TrainableModel& model) {
  if (args.optim == "sgd") {
    const auto options = torch::optim::SGDOptions(args.learning_rate).weight_decay(args.weight_decay);
    return make_optimizer<SGD>(model, options);
  }
  const auto options = torch::optim::AdamWOptions(args.learning_rate)
                           .betas({args.adam_beta1, args.adam_beta2})
                           .eps(args.adam_epsilon)
                           .weight_decay(args.weight_decay);
  return make_optimizer<AdamW>(model, options);
}

TrainingSchedule::TrainingSchedule(const TrainingArguments& args, const TrainingPlan& plan,
                                   torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer) {
  if (args.lr_scheduler_type == "reduce_lr_on_plateau") {
    by_metric_ = std::make_unique<ReduceLROnPlateau>(optimizer, plateau_options(args));
  } else {
    by_step_ =
        std::make_unique<LambdaLR>(optimizer, make_schedule(args.lr_scheduler_type, schedule_options(args, plan)));
  }
}

void TrainingSchedule::step() {
  if (by_step_) by_step_->step();
}

void TrainingSchedule::step_plateau(double metric) {
  if (by_metric_) by_metric_->step(metric);
}

double TrainingSchedule::learning_rate() const { return optimizer_.param_groups().front().options().get_lr(); }

std::string TrainingSchedule::state() const {
  return by_step_ ? schedule_json(by_step_->state()) : schedule_json(by_metric_->state());
}

void TrainingSchedule::load_state(const std::string& text, const std::string& where) {
  if (by_step_) {
    by_step_->load_state(parse_lambda_lr(text, where));
  } else {
    by_metric_->load_state(parse_plateau(text, where));
  }
}

}  // namespace lockstep
