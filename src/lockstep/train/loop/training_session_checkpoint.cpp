// TrainingSession: saves checkpoints, and continues from them.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/checkpoint/state/world_remap.h"
#include "lockstep/train/arguments/argument_changes.h"
#include "lockstep/train/loop/resume_checks.h"
#include "lockstep/train/loop/training_session.h"

namespace lockstep {
namespace {

constexpr const char* kLossMemory = "loss_memory";
constexpr const char* kArgumentsFile = "training_args.json";
constexpr const char* kDataArgumentsFile = "data_args.json";

nlohmann::json json_in(const Checkpoint& checkpoint, const std::string& name) {
  if (!checkpoint.has_file(name)) return nlohmann::json::object();
  const auto json = nlohmann::json::parse(checkpoint.file(name), nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

}  // namespace

// Loss that is not logged yet, and whether the epoch's end has been handled.
NamedTensors TrainingSession::loss_memory() const {
  return {
      {kLossMemory, torch::tensor({loss_since_log_, static_cast<double>(steps_since_log_), epoch_ended_ ? 1.0 : 0.0},
                                  torch::kDouble)}};
}

void TrainingSession::save() {
  TrainerState& state = context_.state;
  if (saved_step_ == state.global_step && !epoch_ended_) return;
  const auto start = std::chrono::steady_clock::now();
  if (!writer_) {
    CheckpointWriterOptions options;
    options.output_dir = args_.output_dir;
    options.save_total_limit = static_cast<int>(args_.save_total_limit.value_or(0));
    writer_ = std::make_unique<CheckpointWriter>(options, context_.group);
  }
  TrainerControl control = context_.control;
  control.should_save = true;  // log_evaluate_save cleared the flag before calling save
  context_.keep_callback_states(control);
  CheckpointContent content;
  content.step = state.global_step;
  content.trainer_state = state;
  if (context_.rank() == 0) {
    content.weights = weights_of(*model_);
    content.files = model_->files();
    content.files[kArgumentsFile] = to_json(args_).dump(2) + "\n";
    content.files[kDataArgumentsFile] = context_.options.data_arguments.dump(2) + "\n";
  }
  if (!args_.save_only_model) {
    if (context_.rank() == 0) content.files[kSchedulerFile] = schedule_->state();
    if (context_.rank() == 0 && scaler_) content.files[kScalerFile] = scaler_json(scaler_->state());
    content.optimizer = {optimizer_->named_state(names_), optimizer_->is_sharded(), optimizer_->group_options()};
    content.generators = generators_.state();
    SamplerState where = sampler_->state();
    where.epoch = epoch_;
    where.position = std::min(position_, sampler_->size());
    content.samplers = {{"train", where}};
    content.rank_tensors = loss_memory();
  }
  const std::string folder = writer_->save(content);
  // The process is about to end, and would lose a checkpoint that is not published by then.
  if (stop_was_asked_) writer_->wait();
  saved_step_ = state.global_step;
  context_.other_time_s += seconds_since(start);
  context_.notify(&TrainerCallback::on_save, nullptr, folder);
}

void TrainingSession::resume() {
  std::string from = args_.resume_from_checkpoint.value_or("false");
  if (from == "True" || from == "False") from[0] = from[0] == 'T' ? 't' : 'f';  // Python's spelling
  if (from == "false") return;
  if (from != "true") {
    run_together(context_.group, "looking at " + from, [&] {
      if (context_.rank() == 0) require_checkpoint_folder(from, args_.output_dir);
    });
    take_up(context_.group ? open_checkpoint(from, *context_.group) : Checkpoint(from));
    return;
  }
  const CheckpointSearch search = context_.group ? find_newest_checkpoint(args_.output_dir, *context_.group)
                                                 : find_newest_checkpoint(args_.output_dir);
  if (!search.damaged.empty()) context_.print(search.notice());
  run_together(context_.group, "resuming", [&] {  // only the first rank has searched
    if (search.newest || search.damaged.empty()) return;
    throw Error("no checkpoint is whole, and a training that starts over would write over them", args_.output_dir,
                "repair or restore one; to start over, move the folder away or leave resume_from_checkpoint out");
  });
  if (search.newest) {
    take_up(*search.newest);
  } else {
    context_.print("There is no checkpoint to resume from in " + args_.output_dir +
                   ": training starts from the beginning.");
  }
}

void TrainingSession::take_up(const Checkpoint& checkpoint) {
  if (!checkpoint.has_file(kSchedulerFile)) {
    throw UsageError("the checkpoint holds the model alone (save_only_model): no training can resume from it",
                     checkpoint.path(), "give it as --model, or take a checkpoint with optimizer and generators");
  }
  require_generators(checkpoint);
  TrainerState state = checkpoint.trainer_state();
  require_same_step(checkpoint, state);
  require_same_kinds(json_in(checkpoint, kArgumentsFile), args_, checkpoint.path());
  const NamedTensors weights = weights_of(*model_);
  checkpoint.load_weights(weights);
  const OptimizerContent saved = checkpoint.optimizer();
  optimizer_->load_named_state(names_, saved.state);
  optimizer_->load_group_options(saved.groups);
  if (scaler_ && checkpoint.has_file(kScalerFile)) {
    scaler_->load_state(parse_scaler(checkpoint.file(kScalerFile), checkpoint.path() + "/" + kScalerFile));
  }

  const ResumeState own =
      resume_state(checkpoint, context_.rank(), context_.world_size(), args_.allow_world_size_change);
  if (own.is_remapped) context_.print(own.notice);
  if (!own.generators.empty()) generators_.load_state(own.generators);
  const SamplerState where = training_position(own, checkpoint, context_.rank());
  require_same_samples(where, sampler_->dataset_size(), checkpoint.path());
  sampler_->load_state(where);
  epoch_ = where.epoch;
  position_ = where.position;
  micro_batch_ = position_ == sampler_->size() ? plan_.micro_batches_per_epoch : position_ / plan_.rank_batch_size;
  bool ended = false;
  for (const auto& [name, tensor] : own.rank_tensors) {
    if (name != kLossMemory) continue;
    loss_since_log_ = tensor[0].item<double>();
    steps_since_log_ = static_cast<std::int64_t>(tensor[1].item<double>());
    ended = tensor[2].item<double>() != 0;
  }
  if (ended || (own.is_remapped && micro_batch_ >= plan_.micro_batches_per_epoch)) {
    ++epoch_;
    micro_batch_ = 0;
    position_ = 0;
  }
  set_max_steps(args_, steps_in_all(checkpoint, state, own.is_remapped), plan_);
  schedule_ = std::make_unique<TrainingSchedule>(args_, plan_, *optimizer_);
  schedule_->load_state(checkpoint.file(kSchedulerFile), checkpoint.path() + "/" + kSchedulerFile);
  // This run's arguments take precedence.
  state.max_steps = plan_.max_steps;
  state.num_train_epochs = plan_.num_epochs;
  state.logging_steps = plan_.logging_steps;
  state.eval_steps = plan_.eval_steps;
  state.save_steps = plan_.save_steps;
  state.train_batch_size = plan_.rank_batch_size;
  state.is_world_process_zero = context_.state.is_world_process_zero;
  state.is_local_process_zero = context_.state.is_local_process_zero;
  context_.state = state;
  taken_up_ = checkpoint.path();
  changes_ = changes_since(checkpoint);
  find_best_model(std::filesystem::path(checkpoint.path()).lexically_normal().parent_path().string());
  for (const auto& callback : context_.options.callbacks) {
    const auto kept = state.stateful_callbacks.find(callback->name());
    if (kept != state.stateful_callbacks.end()) callback->load_state(kept->second);
  }
  if (context_.world_size() > 1) {
    check_replicas_equal(*context_.group, weights, "weights after loading " + checkpoint.path());
  }
  context_.print(fmt::format("Continuing from {}: step {}, epoch {}, {} samples of it taken by rank 0.",
                             checkpoint.path(), state.global_step, epoch_, position_));
}

// The user asks for a number of epochs, not of updates. If the epochs up to the checkpoint had other batches, on other
// ranks, the remaining updates are those of the remaining samples. Later runs with the present batches end at the same
// update.
std::int64_t TrainingSession::steps_in_all(const Checkpoint& checkpoint, const TrainerState& saved,
                                           bool is_remapped) const {
  const nlohmann::json before = json_in(checkpoint, kArgumentsFile);
  const nlohmann::json now = to_json(args_);
  const auto is_same = [&](const char* name) { return before.value(name, nlohmann::json()) == now[name]; };
  if (args_.max_steps > 0 || !before.contains("num_train_epochs") || !is_same("max_steps")) return plan_.max_steps;
  const bool has_same_batches = !is_remapped && saved.train_batch_size == plan_.rank_batch_size &&
                                is_same("gradient_accumulation_steps") && is_same("dataloader_drop_last");
  if (has_same_batches)
    return saved.max_steps + plan_.max_steps - updates_in(before["num_train_epochs"].get<double>(), plan_);
  const std::int64_t updates_left = updates_of(plan_.micro_batches_per_epoch - micro_batch_, plan_);
  const std::int64_t behind = (epoch_ + 1) * plan_.updates_per_epoch - updates_left;
  return saved.global_step + std::max<std::int64_t>(0, plan_.max_steps - behind);
}

std::vector<std::string> TrainingSession::changes_since(const Checkpoint& checkpoint) const {
  std::vector<std::string> changes = argument_changes(json_in(checkpoint, kArgumentsFile), to_json(args_));
  const auto of_data = data_argument_changes(json_in(checkpoint, kDataArgumentsFile), context_.options.data_arguments);
  changes.insert(changes.end(), of_data.begin(), of_data.end());
  return changes;
}

// The checkpoint already has as many steps as this run should do, or more. Callbacks are not called, because nothing is
// trained and what they wrote about the finished training must stay.
TrainOutput TrainingSession::end_at_once() {
  const std::int64_t step = context_.state.global_step;
  for (const std::string& change : changes_) context_.print("warning: " + change);
  context_.print(
      fmt::format("Training is already complete: {} is of step {}, and this run ends with step {}. Nothing is "
                  "trained; to go on, ask for more (--max-steps, --num-train-epochs).",
                  taken_up_, step, plan_.max_steps));
  const bool has_best = !context_.state.best_model_checkpoint.empty();
  if (args_.load_best_model_at_end && step == plan_.max_steps && has_best) load_best_model();
  TrainOutput output;
  output.global_step = step;
  output.already_complete = taken_up_;
  return output;
}

}  // namespace lockstep
