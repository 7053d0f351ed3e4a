#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/tensor_sample.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/fused/weights/weight_bytes.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// A parameter in memory.
struct ShownWeight {
  const at::Tensor& view;      ///< what the parameter is then
  const WeightSample& sample;  ///< since it was gathered
  const std::byte* elements;
};

/// The buckets of weights in shards: this rank's shard of each, the memory to which all of it is gathered, and what its
/// parameters are meanwhile. A parameter, named by its bucket and its place there, has no memory, or is shown in
/// memory that is gathered, or was moved: it has memory of its own, as after torch::load, if the program wrote to it.
class ShardedBuckets {
 public:
  /// What is given must outlive this object.
  ShardedBuckets(const GradientBuckets& gradients, std::vector<FusedBucket>& buckets, WeightBytes& bytes)
      : gradients_(gradients), buckets_(buckets), bytes_(bytes), states_(buckets.size()) {}

  /// Makes the memory of all buckets, which takes no pages yet. Collective if there is an engine.
  /// @param watcher  knows a bucket by its place. @param engine  gathers for all ranks of a host; else null
  void make_memory(ReadWatcher& watcher, HostMemoryEngine* engine);
  /// Takes the parameters' memory away: this rank keeps its shards.
  /// @param watcher  knows parameter i, while it has no memory, by `first` + i; `watched` says so
  void share_out(WatchedParameters& watched, ReadWatcher& watcher, std::size_t first);

  const at::Tensor& shard(std::size_t bucket) const { return states_[bucket].shard; }
  /// Element 0 of the bucket, if the shard lay in a whole one.
  void* owned_weights(std::size_t bucket) const;
  /// The elements of the bucket that are this rank's and of that parameter. None if `begin` is not below `end`.
  Region own_part(std::size_t bucket, std::size_t place) const;

  /// A unit needs the bucket: begins to gather it, unless another unit has it. Ends with `leave`. Collective.
  void gather(std::size_t bucket, Communicator& group);
  void wait(std::size_t bucket);
  void leave(std::size_t bucket);

  /// Lets the parameter be what was gathered, or `view`, if it has no memory.
  void show(std::size_t bucket, std::size_t place);
  void show(std::size_t bucket, std::size_t place, const at::Tensor& view, WeightSample& sample) const;
  /// Takes that memory away from the parameter. If it was written, it gets memory of its own with what is there.
  void hide(std::size_t bucket, std::size_t place) const { hide(bucket, place, shown(bucket, place)); }
  void hide(std::size_t bucket, std::size_t place, const ShownWeight& shown) const;
  /// What the parameter is if the bucket is here; `is_shown`: whether it is that.
  ShownWeight shown(std::size_t bucket, std::size_t place) const;
  bool is_shown(std::size_t bucket, std::size_t place) const;
  /// Whether the program has written to the parameter since it was shown.
  bool is_written(std::size_t bucket, std::size_t place, const ShownWeight& shown) const;

  bool is_moved(std::size_t bucket, std::size_t place) const;
  /// A number that differs, in all likelihood, between ranks that have moved different parameters.
  std::int64_t moved_parameters() const;
  /// Takes this rank's elements of a parameter that was moved, and its memory away.
  void adopt(std::size_t bucket, std::size_t place);
  /// The parameter is then as after torch::load: the next step takes its values over. @param elements  its values
  void give_own_memory(std::size_t bucket, std::size_t place, const std::byte* elements) const;
  /// The same for all of the bucket's that were not moved. All of it is here.
  void give_own_memory(std::size_t bucket) const;

 private:
  struct Bucket {
    std::unique_ptr<WatchedMemory> memory;
    at::Tensor shard;
    std::vector<at::Tensor> views;      // of each parameter: what it is while the bucket is here
    std::vector<at::Tensor> absent;     // and while it is not
    std::vector<WeightSample> samples;  // since it was gathered
    std::shared_ptr<Work> work;
    int users = 0;  // units that are here or coming
  };

  const at::Tensor& parameter(std::size_t bucket, std::size_t place) const {
    return gradients_.parameter(buckets_[bucket].parameters[place]);
  }

  const GradientBuckets& gradients_;
  std::vector<FusedBucket>& buckets_;
  WeightBytes& bytes_;
  std::vector<Bucket> states_;
};

}  // namespace lockstep
