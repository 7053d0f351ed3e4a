#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class Dataset;

/// All that a rank gives another one that is behind it, or has taken a lost rank's place: whatever a later step or the
/// loop's end depends on. Whatever is missing here may differ between ranks once they have changed.
struct ElasticState {
  /// Parameters, alike on all ranks, and all buffers; written in place. Those that require no gradient are copied
  /// before each step, and get these values back if the step is made again; so leave out no buffer that forwards
  /// change.
  std::vector<at::Tensor> tensors;
  std::vector<torch::optim::Optimizer*> optimizers;  ///< with their options, such as learning rates
  /// Everything else, as bytes: schedules, counters, the best loss so far; may be empty. Called before each step, too,
  /// and `load` if the step is made again.
  std::function<std::string()> save{};
  std::function<void(const std::string& bytes)> load{};  ///< takes over what `save` returned
  /// Steps that were made before: 0, or those of the checkpoint that this rank has read. A rank that has fewer than
  /// others gets their state before the first step.
  std::int64_t first_step = 0;
  /// No more ranks take part than so many, such as the virtual shards: other processes that come wait until one is
  /// lost. 0: any number. Equal on all ranks.
  int most_ranks = 0;
  /// What the steps read, as it is before ranks share it out; may be empty. Ranks compare the number of samples and the
  /// samples (see same_data.h) when the loop begins: a difference is an error on all of them. A process that is to take
  /// a lost rank's place and has read something else ends with an error, and the others continue without it.
  std::vector<std::shared_ptr<const Dataset>> data{};
};

}  // namespace lockstep
