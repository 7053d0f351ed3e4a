#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/data/sampler.h"

namespace lockstep {

/// What a rank resumes with, in a job of its own size or another.
struct ResumeState {
  std::map<std::string, SamplerState> samplers;
  NamedTensors generators;    ///< empty for a rank that the saved run did not have: it keeps those it was seeded with
  NamedTensors rank_tensors;  ///< empty where the world size changed: they belong to a rank that is no more
  bool is_remapped = false;
  /// What changed and what it means, for the log of rank 0; empty where nothing did.
  std::string notice;
};

/// Refuses a checkpoint without the generators of a rank that wrote it: a training would go on from it with other
/// random numbers, and end with other weights. @throws Error  naming the file, on every rank alike
void require_generators(const Checkpoint& checkpoint);

/// This rank's part of `checkpoint`.
///
/// Where the job has another number of ranks, data goes on from the samples that all ranks together had taken: in an
/// order that is dealt round-robin (DistributedSampler, ExactDistributedSampler) these are its first `position *
/// num_replicas`. Where they do not divide by the new number, up to `world_size - 1` of them come again. The result is
/// not bit for bit that of the run that was never stopped, since sums over ranks are cut in another way; so it must be
/// asked for.
///
/// @param allow_remap  false: another world size is an Error that says what a remap would do
/// @throws Error  see above; or if ranks of the saved run were in different epochs
ResumeState resume_state(const Checkpoint& checkpoint, int rank, int world_size, bool allow_remap);

/// The position in a job of `num_replicas` ranks that stands for those of all ranks of the saved run.
/// @param repeated  set to how many samples come again
SamplerState remap_sampler(const std::vector<SamplerState>& saved, std::int64_t num_replicas, std::int64_t& repeated);

}  // namespace lockstep
