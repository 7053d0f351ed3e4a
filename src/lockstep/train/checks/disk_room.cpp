#include "lockstep/train/checks/disk_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string in_mb(std::int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

// Checkpoints that are there at one time, at most.
std::int64_t kept_checkpoints(const TrainingArguments& args, const TrainingPlan& plan) {
  if (args.save_strategy == "no") return 0;
  std::int64_t written = std::max<std::int64_t>(plan.num_epochs, 1);
  if (args.save_strategy == "steps") written = plan.max_steps / std::max<std::int64_t>(plan.save_steps, 1);
  if (args.save_strategy == "best") written = 1;
  // The oldest is removed once the newest is whole.
  if (args.save_total_limit && *args.save_total_limit > 0) written = std::min(written, *args.save_total_limit + 1);
  return written;
}

}  // namespace

SavedBytes SavedBytes::of(const TrainingArguments& args, std::int64_t weights, std::int64_t trainable_bytes) {
  const bool keeps_averages = args.optim != "sgd" && !args.save_only_model;
  return {weights, keeps_averages ? 2 * trainable_bytes : 0};
}

SavedBytes saved_bytes(const TrainingArguments& args, TrainableModel& model) {
  std::int64_t weights = 0, trainable = 0;
  const ModuleTensors tensors = model.tensors();
  for (const NamedTensor& parameter : tensors.parameters) {
    const auto bytes = static_cast<std::int64_t>(parameter.tensor.nbytes());
    weights += bytes;
    if (parameter.tensor.requires_grad()) trainable += bytes;
  }
  for (const NamedTensor& buffer : tensors.buffers()) weights += static_cast<std::int64_t>(buffer.tensor.nbytes());
  return SavedBytes::of(args, weights, trainable);
}

std::string check_disk_room(const TrainingArguments& args, const TrainingPlan& plan, const SavedBytes& saved,
                            std::int64_t free_bytes) {
  const std::int64_t checkpoints = kept_checkpoints(args, plan);
  if (checkpoints == 0) {
    if (saved.weights <= free_bytes) return "";
    return fmt::format("the trained model will take {}, but {} has only {} left: free space before it is saved",
                       in_mb(saved.weights), args.output_dir, in_mb(free_bytes));
  }
  if (2 * saved.weights > free_bytes) {
    throw Error(fmt::format("the trained model and one checkpoint will take {}, but the file system has only {} left",
                            in_mb(2 * saved.weights), in_mb(free_bytes)),
                args.output_dir, "free space, or name a folder on another disk: --output-dir");
  }
  const std::int64_t each = saved.weights + saved.optimizer_state;
  if (checkpoints * each <= free_bytes - saved.weights) return "";
  return fmt::format(
      "{} checkpoints of {} each and the trained model will not fit into the {} that {} has left: set "
      "save_total_limit, save less often, or free space",
      checkpoints, in_mb(each), in_mb(free_bytes), args.output_dir);
}

std::int64_t free_bytes_of(const std::string& folder) {
  std::error_code failed;
  std::filesystem::path path = std::filesystem::absolute(folder, failed);
  while (path.has_relative_path() && !std::filesystem::exists(path, failed)) path = path.parent_path();
  const std::uintmax_t free = std::filesystem::space(path, failed).available;
  constexpr auto kMost = static_cast<std::uintmax_t>(std::numeric_limits<std::int64_t>::max());
  return failed ? static_cast<std::int64_t>(kMost) : static_cast<std::int64_t>(std::min(free, kMost));
}

}  // namespace lockstep
