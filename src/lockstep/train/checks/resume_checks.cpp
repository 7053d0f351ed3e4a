#include "lockstep/train/checks/resume_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "lockstep/parallel/agreement/setting_difference.h"

namespace lockstep {
namespace {

// The checkpoints in `folder`, to suggest them in an error.
std::string checkpoints_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : OutputFolder(real_file_system(), folder).entries(true)) paths.push_back(entry.path);
  if (paths.empty()) return "";
  constexpr std::size_t kShown = 10;
  const std::size_t shown = std::min(paths.size(), kShown);
  return fmt::format("{} has {}{} (the newest first)", folder,
                     fmt::join(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     paths.size() > shown ? ", …" : "");
}

// The names in `some` that `others` does not have, for a message.
std::string names_beyond(const nlohmann::json& some, const nlohmann::json& others) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> names;
  for (const nlohmann::json& name : some) {
    if (std::find(others.begin(), others.end(), name) == others.end()) names.push_back(shown_setting(name));
  }
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  const std::size_t further = names.size() - kShown;
  names.resize(kShown);
  return fmt::format("{} and {} more", fmt::join(names, ", "), further);
}

}  // namespace

void require_same_number_of_classes(const nlohmann::json& saved, const nlohmann::json& own, const std::string& file,
                                    const std::string& path) {
  const nlohmann::json before = saved.value("classes", nlohmann::json()), now = own.value("classes", nlohmann::json());
  if (!before.is_array() || !now.is_array() || before.size() == now.size()) return;
  const std::string added = names_beyond(now, before), missing = names_beyond(before, now);
  throw UsageError(
      fmt::format("the data has {} class{}, and the checkpoint {}{}{}", now.size(), now.size() == 1 ? "" : "es",
                  before.size(), added.empty() ? "" : "; the checkpoint does not have " + added,
                  missing.empty() ? "" : "; the data does not have " + missing),
      (file.empty() ? "the program's dataset" : file) + ", " + path,
      "correct the labels, or resume with the data of the saved run; to train on other classes, start a new "
      "training from its weights: --model " +
          path + " --ignore-mismatched-sizes");
}

void require_checkpoint_folder(const std::string& from, const std::string& output_dir) {
  std::error_code ignored;
  if (std::filesystem::exists(from + "/" + kManifestFile, ignored)) return;
  const bool is_folder = std::filesystem::is_directory(from, ignored);
  const std::string inside = is_folder ? checkpoints_in(from) : "";
  if (is_folder && inside.empty()) return;  // opening it reports what is missing
  const std::string there = is_folder ? inside : checkpoints_in(output_dir);
  const std::string what = is_folder ? "resume_from_checkpoint: " + from + " is not a checkpoint, but holds some"
                           : std::filesystem::exists(from, ignored)
                               ? "resume_from_checkpoint: " + from + " is not a folder"
                               : "resume_from_checkpoint: there is no folder \"" + from + "\"";
  throw UsageError(what, "training arguments",
                   (there.empty() ? "there are no checkpoints in " + output_dir + " either: leave it out to start over"
                                  : there + ": give one of them") +
                       ", or 'true' for the newest whole one in output_dir, if there is any");
}

void require_same_kinds(const nlohmann::json& saved, const TrainingArguments& args, const std::string& path) {
  const auto require = [&](const char* name, const std::string& before, const std::string& now, bool is_same) {
    if (is_same) return;
    throw UsageError(
        fmt::format("{} is {}, but {} in the checkpoint, whose state is of that kind", name, now, before), path,
        fmt::format("give {} {}, or start a new training from its weights: --model {}", name, before, path));
  };
  const auto is_plateau = [](const std::string& type) { return type == "reduce_lr_on_plateau"; };
  const std::string optim = saved.value("optim", args.optim);
  require("optim", optim, args.optim, (optim == "sgd") == (args.optim == "sgd"));
  const std::string type = saved.value("lr_scheduler_type", args.lr_scheduler_type);
  require("lr_scheduler_type", type, args.lr_scheduler_type, is_plateau(type) == is_plateau(args.lr_scheduler_type));
  const std::int64_t shards =
      saved.value("virtual_shards", saved.is_object() && !saved.empty() ? 0 : args.virtual_shards);
  require("virtual_shards", std::to_string(shards), std::to_string(args.virtual_shards), shards == args.virtual_shards);
}

ResumeState state_of_slices(const Checkpoint& checkpoint, int rank) {
  ResumeState result;
  result.samplers = checkpoint.samplers(0);
  result.rank_tensors = checkpoint.rank_tensors(0);
  if (rank < checkpoint.world_size()) result.generators = checkpoint.generators(rank);
  return result;
}

void require_same_step(const Checkpoint& checkpoint, const TrainerState& state) {
  if (state.global_step == checkpoint.step()) return;
  throw Error(fmt::format("trainer_state.json is of step {}, but manifest.json of step {}", state.global_step,
                          checkpoint.step()),
              checkpoint.path(), "resume from another checkpoint");
}

SamplerState training_position(const std::map<std::string, SamplerState>& samplers, const Checkpoint& checkpoint,
                               int rank) {
  const auto found = samplers.find("train");
  if (found != samplers.end()) return found->second;
  throw Error(fmt::format("{} does not say where rank {} was in the training data", positions_file(rank), rank),
              checkpoint.path() + "/" + positions_file(rank) + ", field \"train\"", "resume from another checkpoint");
}

void require_same_samples(const SamplerState& saved, std::int64_t samples, const std::string& path) {
  if (saved.dataset_size == samples) return;
  throw UsageError(
      fmt::format("the training data has {} samples, but {} in the checkpoint", samples, saved.dataset_size), path,
      "resume with the data of the saved run (--train-file, --max-train-samples), or start a new training from its "
      "weights: --model " +
          path);
}

}  // namespace lockstep
