#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/recovery/lasting_memory.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// Weights and the whole optimizer's state, in memory of one host that outlives the ranks.
class SharedState {
 public:
  /// @param optimizer  must outlive this object. @param is_there  the memory has weights and state already; otherwise
  /// each rank has the whole state
  SharedState(const FlatOptimizer& optimizer, const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients,
              std::shared_ptr<LastingMemory> memory, int hosts, bool is_there);

  /// Lets the segment of `bucket`, a place in the list, have its state here. @param world_size  of the group
  /// @param fill  gives memory of a buffer pages and, if it is there on other hosts alone, its content
  void take(FusedSegment& segment, std::size_t bucket, int world_size,
            std::function<void(const at::Tensor& memory)> fill);
  /// An update of all parameters but the skipped ones is finished. @param skip  by place in the bucket
  void count(std::size_t bucket, const std::vector<bool>& skip);
  const std::shared_ptr<LastingMemory>& memory() const { return memory_; }
  /// On how many hosts the ranks are that make these updates.
  int hosts() const { return hosts_; }
  /// How often each parameter was updated.
  void write_steps(std::int64_t* by_parameter) const;

  /// The norm of the gradients of the last update.
  double norm() const { return memory_->norm(memory_->header().number.load()); }

  /// The memory of a bucket's state, by buffer, laid out as its weights.
  const std::vector<at::Tensor>& buffers(std::size_t bucket) const { return buffers_[bucket]; }
  /// The state of all parameters, as views of this memory.
  NamedState whole(const NamedParameters& names) const;
  /// All ranks have written their parts of the state here.
  void is_complete() { before_.reset(); }
  /// The parameters are views of the weights here, from now on.
  void weights_are_here() { are_here_ = true; }
  /// Gives the parameters copies of the weights here, unless the program has moved them.
  void leave_weights() const;

 private:
  struct Place {
    at::Tensor parameter;
    std::size_t index = 0;    // of the parameter
    std::int64_t offset = 0;  // in its bucket's memory
    std::int64_t step = 0;    // updates made so far
  };

  const FlatOptimizer& optimizer_;
  std::shared_ptr<LastingMemory> memory_;
  int hosts_;
  bool is_there_;
  bool are_here_ = false;
  std::optional<NamedState> before_;              // this rank's whole state, until all have written their parts
  std::vector<std::vector<Place>> places_;        // by bucket
  std::vector<std::vector<at::Tensor>> buffers_;  // by bucket
};

}  // namespace lockstep
