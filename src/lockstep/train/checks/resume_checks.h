#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/resume_state.h"
#include "lockstep/data/sampler.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// Refuses a resume_from_checkpoint that is not a folder, or is a folder of checkpoints: the error would otherwise be
/// about a missing manifest. @throws UsageError  that lists the existing checkpoints
void require_checkpoint_folder(const std::string& from, const std::string& output_dir);

/// Refuses an optimizer or schedule of a kind that cannot load the checkpoint's state, and another number of virtual
/// shards, whose positions in the data would be others.
/// @param saved  the checkpoint's arguments; empty: unknown. @throws UsageError  that says what to do
void require_same_kinds(const nlohmann::json& saved, const TrainingArguments& args, const std::string& path);

/// Refuses data with another number of classes than the checkpoint's: its weights do not fit, and errors about their
/// shapes would not say why.
/// @param saved, own  settings of the data, both with the names of "classes"; others say nothing
/// @param file  of the data. @throws UsageError  that names the classes that one of the two does not have
void require_same_number_of_classes(const nlohmann::json& saved, const nlohmann::json& own, const std::string& file,
                                    const std::string& path);

/// What a rank resumes with if the training has slices: what rank 0 had, because all that matters is equal on
/// all ranks, however many there are now. Generators are this rank's own, if it was there.
ResumeState state_of_slices(const Checkpoint& checkpoint, int rank);

/// Refuses a checkpoint whose training state has another step than its manifest: one of the files belongs to another
/// checkpoint.
/// @throws Error  naming both
void require_same_step(const Checkpoint& checkpoint, const TrainerState& state);

/// The position of a rank in the training data. @param samplers  that rank's states in `checkpoint`
/// @throws Error  naming the file that lacks it
SamplerState training_position(const std::map<std::string, SamplerState>& samplers, const Checkpoint& checkpoint,
                               int rank);

/// Refuses a position in other data. @param samples  present number of samples. @throws UsageError  that says what to
/// do
void require_same_samples(const SamplerState& saved, std::int64_t samples, const std::string& path);

}  // namespace lockstep
