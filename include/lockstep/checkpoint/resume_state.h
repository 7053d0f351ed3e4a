#pragma once

#include <map>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/data/sampler.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The state with which a rank resumes, in a job of the saved size or another.
struct ResumeState {
  std::map<std::string, SamplerState> samplers;
  NamedTensors generators;    ///< empty for a rank that the saved run lacked: it keeps its seeded generators
  NamedTensors rank_tensors;  ///< empty if the world size changed: the saved ranks no longer exist
  bool is_remapped = false;
  /// What changed and what it means, for the log of rank 0; empty if nothing changed.
  std::string notice;
};

/// This rank's part of `checkpoint`.
///
/// If the job has another number of ranks, data continues after the samples that all ranks together had taken. In an
/// order that is dealt round-robin (DistributedSampler, ExactDistributedSampler) these are its first position times
/// num_replicas. If the new number of ranks does not divide this, up to `world_size - 1` samples are repeated. The
/// result differs in bits from an uninterrupted run, because sums over ranks are divided in another way; so the caller
/// must ask for it.
///
/// @param allow_remap  false: another world size is an Error that describes what a remap would do
/// @throws Error  see above; or if ranks of the saved run were in different epochs
ResumeState resume_state(const Checkpoint& checkpoint, int rank, int world_size, bool allow_remap);

}  // namespace lockstep
