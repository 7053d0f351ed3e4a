#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/checkpoint/resume_state.h"

namespace lockstep {

/// Refuses a checkpoint that lacks the generators of a rank that wrote it: a resumed training would draw other random
/// numbers and get other weights. @throws Error  naming the file, on every rank alike
void require_generators(const Checkpoint& checkpoint);

/// The position in a job of `num_replicas` ranks that is equivalent to the positions of all ranks of the saved run.
/// @param repeated  set to the number of samples that are repeated
SamplerState remap_sampler(const std::vector<SamplerState>& saved, std::int64_t num_replicas, std::int64_t& repeated);

}  // namespace lockstep
