#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/checkpoint/state/world_remap.h"
#include "lockstep/data/sampler.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// Refuses a resume_from_checkpoint that is no folder, or a folder of checkpoints: it would be blamed for its lack of a
/// manifest. @throws UsageError  that lists the checkpoints there are
void require_checkpoint_folder(const std::string& from, const std::string& output_dir);

/// Refuses an optimizer or schedule of a kind that cannot take up the checkpoint's state.
/// @param saved  the checkpoint's arguments; empty: it does not tell. @throws UsageError  with the way out
void require_same_kinds(const nlohmann::json& saved, const TrainingArguments& args, const std::string& path);

/// Refuses a checkpoint whose training stopped at another step than its manifest says: one of the files is of another.
/// @throws Error  naming both
void require_same_step(const Checkpoint& checkpoint, const TrainerState& state);

/// Where a rank of `checkpoint` was in the training data. @throws Error  naming the file that does not say it
const SamplerState& training_position(const ResumeState& own, const Checkpoint& checkpoint, int rank);

/// Refuses a position in other data. @param samples  that there are now. @throws UsageError  with the way out
void require_same_samples(const SamplerState& saved, std::int64_t samples, const std::string& path);

}  // namespace lockstep
