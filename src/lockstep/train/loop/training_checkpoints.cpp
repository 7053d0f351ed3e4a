#include "lockstep/train/loop/training_checkpoints.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/train/arguments/argument_changes.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/checks/resume_checks.h"
#include "lockstep/train/folder/training_folder.h"
#include "lockstep/train/weights/model_weights.h"

namespace lockstep {
namespace {

constexpr const char* kLossMemory = "loss_memory";
constexpr const char* kArgumentsFile = "training_args.json";
constexpr const char* kDataArgumentsFile = "data_args.json";
constexpr const char* kDataDigestFile = "data_digest.json";

// A path may have bytes that are not UTF-8.
std::string settings_text(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

nlohmann::json json_in(const Checkpoint& checkpoint, const std::string& name) {
  if (!checkpoint.has_file(name)) return nlohmann::json::object();
  const auto json = nlohmann::json::parse(checkpoint.file(name), nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

// The model's device, and those of its other replicas in this process.
std::vector<int> cuda_indices(c10::Device device, std::int64_t replicas) {
  if (!device.is_cuda()) return {};
  std::vector<int> indices{device.index()};
  for (int i = 0; replicas > 1 && i < replicas; ++i) {
    if (i != device.index()) indices.push_back(i);
  }
  return indices;
}

// The loss that is not logged yet, whether the epoch's end has been handled, and the loss of all updates.
at::Tensor loss_memory(const LossMemory& losses, bool epoch_ended) {
  const LossMemory::Sum &unlogged = losses.unlogged(), &all = losses.all();
  return torch::tensor({unlogged.losses, static_cast<double>(unlogged.updates), epoch_ended ? 1.0 : 0.0, all.losses,
                        static_cast<double>(all.updates)},
                       torch::kDouble);
}

// The sum that begins at `first`; an empty one if an older version has not saved it.
LossMemory::Sum sum_in(const at::Tensor& memory, std::int64_t first) {
  if (memory.numel() < first + 2) return {};
  return {memory[first].item<double>(), static_cast<std::int64_t>(memory[first + 1].item<double>())};
}

// "false", "true" or a folder.
std::string asked_checkpoint(const TrainingArguments& args) {
  std::string from = args.resume_from_checkpoint.value_or("false");
  if (from == "True" || from == "False") from[0] = from[0] == 'T' ? 't' : 'f';  // Python's spelling
  return from;
}

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(TrainerContext& context, TrainingParts& parts, std::int64_t replicas)
    : context_(context), parts_(parts), generators_(cuda_indices(device_of(*context.options.model), replicas)) {}

CheckpointContent TrainingCheckpoints::content(bool epoch_ended) {
  const bool is_rank_0 = context_.rank() == 0;
  CheckpointContent content;
  content.step = context_.state.global_step;
  content.trainer_state = context_.state;
  ModelWeights(context_).add_to(content);
  if (is_rank_0) {
    content.files = context_.options.model->files();
    content.files[kArgumentsFile] = settings_text(to_json(context_.args()));
    content.files[kDataArgumentsFile] = settings_text(context_.options.data_arguments);
    if (!context_.args().save_only_model) content.files[kDataDigestFile] = parts_.data.text() + "\n";
  }
  if (context_.args().save_only_model) return content;
  parts_.updater.save(content, is_rank_0);
  content.generators = generators_.state();
  content.samplers = {{"train", parts_.progress.state()}};
  content.rank_tensors = {{kLossMemory, loss_memory(parts_.losses, epoch_ended)}};
  return content;
}

void TrainingCheckpoints::save(SaveOptions how) {
  const TrainingArguments& args = context_.args();
  if (saved_step_ == context_.state.global_step && !how.epoch_ended) return;
  const auto start = std::chrono::steady_clock::now();
  if (!writer_) {
    CheckpointWriterOptions options;
    options.output_dir = args.output_dir;
    options.background = args.save_in_background.value_or(!context_.shards);
    options.save_total_limit = static_cast<int>(args.save_total_limit.value_or(0));
    writer_ = std::make_unique<CheckpointWriter>(options, context_.group);
  }
  TrainerControl control = context_.control;
  control.should_save = true;  // the session cleared the flag before it called save
  context_.keep_callback_states(control);
  if (context_.rank() == 0) context_.training_folder->keep();
  const std::string folder = writer_->save(content(how.epoch_ended));
  if (how.wait) writer_->wait();
  saved_step_ = context_.state.global_step;
  context_.other_time_s += seconds_since(start);
  context_.notify(&TrainerCallback::on_save, nullptr, folder);
}

void TrainingCheckpoints::wait() {
  if (writer_) writer_->wait();
}

bool TrainingCheckpoints::are_asked_for(const TrainingArguments& args) { return asked_checkpoint(args) != "false"; }

void TrainingCheckpoints::resume() {
  const std::string& output_dir = context_.args().output_dir;
  const std::string from = asked_checkpoint(context_.args());
  if (from == "false") return;
  if (from != "true") {
    run_together(context_.group, "looking at " + from, [&] {
      if (context_.rank() == 0) require_checkpoint_folder(from, output_dir);
    });
    take_up(context_.group ? open_checkpoint(from, *context_.group) : Checkpoint(from));
    return;
  }
  const CheckpointSearch search =
      context_.group ? find_newest_checkpoint(output_dir, *context_.group) : find_newest_checkpoint(output_dir);
  if (!search.damaged.empty()) context_.print(search.notice());
  run_together(context_.group, "resuming", [&] {  // only the first rank has searched
    if (search.newest || search.damaged.empty()) return;
    throw Error("no checkpoint is whole, and a training that starts over would overwrite them", output_dir,
                "repair or restore one; to start over, move the folder away or leave resume_from_checkpoint out");
  });
  if (search.newest) {
    take_up(*search.newest);
  } else {
    context_.print("There is no checkpoint to resume from in " + output_dir + ": training starts from the beginning.");
  }
}

void TrainingCheckpoints::take_up(const Checkpoint& checkpoint) {
  if (!checkpoint.has_file(kSchedulerFile)) {
    throw UsageError("the checkpoint contains only the model (save_only_model), so no training can resume from it",
                     checkpoint.path(), "give it as --model, or use a checkpoint with optimizer and generators");
  }
  const TrainingArguments& args = context_.args();
  require_generators(checkpoint);
  const TrainerState state = checkpoint.trainer_state();
  require_same_step(checkpoint, state);
  require_same_kinds(json_in(checkpoint, kArgumentsFile), args, checkpoint.path());
  require_same_number_of_classes(json_in(checkpoint, kDataArgumentsFile), context_.options.data_arguments,
                                 context_.options.train_file, checkpoint.path());
  ModelWeights(context_).load(checkpoint, "weights after loading " + checkpoint.path());
  parts_.updater.load(checkpoint);

  const ResumeState own = parts_.plan.has_slices ? state_of_slices(checkpoint, context_.rank())
                                                 : resume_state(checkpoint, context_.rank(), context_.world_size(),
                                                                args.allow_world_size_change);
  if (own.is_remapped) context_.print(own.notice);
  if (!own.generators.empty()) generators_.load_state(own.generators);
  take_up_place(checkpoint, own);
  const std::vector<std::string> other_data = parts_.data.require_as_saved(
      checkpoint.has_file(kDataDigestFile) ? checkpoint.file(kDataDigestFile) : "", checkpoint.path());
  set_max_steps(args, steps_in_all(checkpoint, state, own.is_remapped), parts_.plan);
  parts_.updater.load_schedule(checkpoint, parts_.plan);
  take_up_state(checkpoint, state);
  changes_.insert(changes_.end(), other_data.begin(), other_data.end());
  context_.print(fmt::format("Continuing from {}: step {}, epoch {}, {} samples of it taken by {} 0.",
                             checkpoint.path(), state.global_step, parts_.progress.epoch(),
                             parts_.progress.state().position, parts_.plan.has_slices ? "shard" : "rank"));
}

void TrainingCheckpoints::take_up_place(const Checkpoint& checkpoint, const ResumeState& own) {
  const SamplerState where = training_position(own.samplers, checkpoint, context_.rank());
  require_same_samples(where, parts_.plan.samples, checkpoint.path());
  // If the number of ranks changed, all ranks are at the same position. With slices `where` is rank 0's.
  const SamplerState of_rank_0 = own.is_remapped ? where : training_position(checkpoint.samplers(0), checkpoint, 0);
  parts_.progress.load_state(where, of_rank_0);
  bool ended = own.is_remapped && parts_.progress.is_epoch_done();
  for (const auto& [name, tensor] : own.rank_tensors) {
    if (name != kLossMemory) continue;
    parts_.losses.set_unlogged(sum_in(tensor, 0));
    ended = ended || tensor[2].item<double>() != 0;
  }
  // The losses are means over all ranks, so those of rank 0 serve any number of ranks.
  for (const auto& [name, tensor] : checkpoint.rank_tensors(0)) {
    if (name == kLossMemory) parts_.losses.set_all(sum_in(tensor, 3));
  }
  if (ended) parts_.progress.end_epoch();
}

void TrainingCheckpoints::take_up_state(const Checkpoint& checkpoint, TrainerState state) {
  set_planned_numbers(parts_.plan, state);  // this run's arguments take precedence
  state.is_world_process_zero = context_.state.is_world_process_zero;
  state.is_local_process_zero = context_.state.is_local_process_zero;
  context_.state = state;
  taken_up_ = checkpoint.path();
  changes_ = changes_since(checkpoint);
  parts_.best.find(std::filesystem::path(checkpoint.path()).lexically_normal().parent_path().string());
  for (const auto& callback : context_.options.callbacks) {
    const auto kept = state.stateful_callbacks.find(callback->name());
    if (kept != state.stateful_callbacks.end()) callback->load_state(kept->second);
  }
}

// The user asks for a number of epochs, not of updates. If the epochs up to the checkpoint had other batches, on other
// ranks, the remaining updates are those of the remaining samples. Later runs with the present batches end at the same
// update.
std::int64_t TrainingCheckpoints::steps_in_all(const Checkpoint& checkpoint, const TrainerState& saved,
                                               bool is_remapped) const {
  const TrainingPlan& plan = parts_.plan;
  const nlohmann::json before = json_in(checkpoint, kArgumentsFile);
  const nlohmann::json now = to_json(context_.args());
  const auto is_same = [&](const char* name) { return before.value(name, nlohmann::json()) == now[name]; };
  if (context_.args().max_steps > 0 || !before.contains("num_train_epochs") || !is_same("max_steps")) {
    return plan.max_steps;
  }
  const bool has_same_batches = !is_remapped && saved.train_batch_size == plan.rank_batch_size &&
                                is_same("gradient_accumulation_steps") && is_same("dataloader_drop_last");
  if (has_same_batches) {
    return saved.max_steps + plan.max_steps - updates_in(before["num_train_epochs"].get<double>(), plan);
  }
  const std::int64_t updates_left = updates_of(plan.micro_batches_per_epoch - parts_.progress.micro_batch(), plan);
  const std::int64_t behind = (parts_.progress.epoch() + 1) * plan.updates_per_epoch - updates_left;
  return saved.global_step + std::max<std::int64_t>(0, plan.max_steps - behind);
}

std::vector<std::string> TrainingCheckpoints::changes_since(const Checkpoint& checkpoint) const {
  std::vector<std::string> changes = argument_changes(json_in(checkpoint, kArgumentsFile), to_json(context_.args()));
  const auto of_data = data_argument_changes(json_in(checkpoint, kDataArgumentsFile), context_.options.data_arguments);
  changes.insert(changes.end(), of_data.begin(), of_data.end());
  return changes;
}

}  // namespace lockstep
