#pragma once

#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/detail/checkpoint/checkpoint_content.h"

namespace lockstep {

/// Content in which every number is a function of (step, rank), so that it can be recomputed.
CheckpointContent sample_content(std::int64_t step, int rank = 0, int world_size = 1, bool is_sharded = false);

/// Fails the test unless `checkpoint` is what `world_size` ranks wrote with sample_content(step).
void expect_sample(const Checkpoint& checkpoint, std::int64_t step, int world_size = 1);

/// Names in `folder` that start with a dot; a save must not leave any.
std::vector<std::string> hidden_names_in(const std::string& folder);
/// Steps of the folders checkpoint-N, sorted.
std::vector<std::int64_t> steps_in(const std::string& folder);

}  // namespace lockstep
