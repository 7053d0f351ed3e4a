#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/recovery/job_memory_map.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// Where weights, optimizer's state, sums of gradients, journal and gradients of a fused update lie in a job's memory
/// of one host. All of it stays where it is when the ranks change: what depends on their number is behind everything
/// else, or has room for as many as there may ever be.
class LastingMemory {
 public:
  /// What decides where everything lies. Equal on all ranks, and in every group of them.
  struct Shape {
    struct Bucket {
      std::int64_t numel = 0;  ///< up to the end of the last gradient
      std::int64_t tail = 0;   ///< elements behind the gradients, if all ranks are there: each has one
      at::ScalarType dtype = at::kFloat;
    };
    std::vector<Bucket> buckets;
    std::size_t parameters = 0;
    int most_ranks = 1;       ///< slices
    std::uint64_t names = 0;  ///< digest of the parameters' names and sizes

    std::uint64_t digest() const;
    /// For people: "4 slices, 41 parameters of 4369408 elements"
    std::string words() const;
  };
  static Shape shape_of(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients,
                        std::int64_t most_ranks, int world_size);

  struct Lanes {
    int count = 1;  ///< of each rank; what is there already counts
    std::size_t note_bytes = 0;
    std::size_t undo_bytes = 0;
  };
  /// Maps it on all ranks. Collective. @param is_there  weights and state are there, on this host, and are kept;
  /// otherwise what is there is given up. @param earlier  as this rank has had it mapped; null: it has not
  /// @throws Error  on every rank, if that fails on some rank, or if what is there has another shape
  static std::shared_ptr<LastingMemory> open(std::shared_ptr<JobMemoryMap> job, const Shape& shape, const Lanes& lanes,
                                             bool is_there, std::shared_ptr<LastingMemory> earlier,
                                             const MemoryHosts& hosts, Communicator& communicator);

  MemoryHeader& header() const { return job_->header(); }
  JobMemoryMap& job() const { return *job_; }
  const Shape& shape() const { return shape_; }
  int lanes() const { return lanes_.count; }
  /// Elements of a bucket for a group of this many ranks.
  std::int64_t numel(std::size_t bucket, int world_size) const;
  // Each has room for any number of ranks. Tensors keep the mapping.
  at::Tensor weights(std::size_t bucket) const { return array(bucket, 0); }
  at::Tensor sums(std::size_t bucket) const { return array(bucket, 1); }
  at::Tensor state(std::size_t bucket, std::size_t buffer) const { return array(bucket, 2 + buffer); }
  /// The gradients of the rank at this place of the host, with their tail. Not collective.
  at::Tensor gradients(int place, std::size_t bucket);
  /// By parameter: how often it was updated, after `number` updates in all.
  std::int64_t* steps(std::uint64_t number) const;
  /// All of it, and the norm of that update.
  at::Tensor counts(std::uint64_t number) const;
  /// The norm of the gradients of update `number`.
  double& norm(std::uint64_t number) const;
  std::byte* journal() const { return main_->data() + journal_offset_; }
  std::size_t journal_block_bytes() const { return block_bytes_; }

  /// Collective: lets a part of the memory have pages, each rank of a host its own part. @throws Error  on every rank,
  /// if memory is short on some rank
  void reserve_part(const at::Tensor& memory, const MemoryHosts& hosts, Communicator& communicator) const;
  void reserve_gradients(const MemoryHosts& hosts, Communicator& communicator) const;
  void reserve_journal(int place, Communicator& communicator) const;

 private:
  LastingMemory(std::shared_ptr<JobMemoryMap> job, Shape shape, const Lanes& lanes);
  void start_over() const;
  at::Tensor array(std::size_t bucket, std::size_t index) const;
  std::size_t room_bytes(std::size_t bucket) const;
  std::shared_ptr<JobMemoryMap> job_;
  Shape shape_;
  Lanes lanes_;
  std::size_t steps_offset_ = 0;
  std::vector<std::size_t> offsets_;  // by bucket: its weights, then the other arrays
  std::size_t journal_offset_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t slots_offset_ = 0;
  std::size_t slot_bytes_ = 0;
  std::vector<std::size_t> in_slot_;  // by bucket: offset of its gradients
  std::shared_ptr<shm::Mapping> main_;
  std::vector<std::shared_ptr<shm::Mapping>> slots_;  // by place on the host, once asked for
};

}  // namespace lockstep
