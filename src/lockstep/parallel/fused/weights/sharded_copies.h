#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/tensor_sample.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/fused/weights/unit_part.h"
#include "lockstep/parallel/fused/weights/weight_units.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/tensor/compute_copy.h"

namespace lockstep {

class ShardedWeights;

/// The bf16 copies of weights in shards: each owner rounds its elements once, in the update, and 2 bytes an element
/// travel when a unit is gathered.
///
/// `compute_copy` gets a watched tensor, which is gathered when LibTorch reads it, in forward and in backward. The
/// ranks agree in a step which weights forwards have asked copies of. From then on a unit that has any is gathered by a
/// `UnitPart`: those weights in bf16, and its others in their own type. Before that, and if a program reads such a
/// weight itself, all of the unit is gathered in its own type, and a copy that is read is rounded here. As long as a
/// weight itself is in memory there is no copy: a cast of what is there costs no message, and sees what was written.
///
/// What a part brings lies in memory for each parameter, or, if the ranks of a host have one copy of it, in memory for
/// each unit, to which the engine writes it.
///
/// Numbers that the watch knows: for n parameters, i is parameter i in its own type, n + i its copy, and 2n + i the
/// parameter while it has no memory. The memory of unit k has number 3n + k.
class ShardedCopies final : public ReadWatcher, public ComputeCopySource {
 public:
  struct Parts {
    ShardedWeights& weights;
    const GradientBuckets& gradients;
    const std::vector<FusedBucket>& buckets;
    const WeightUnits& units;
    const UpdatePlan& plan;
    Communicator& communicator;
    /// The group that gathers, if the ranks of a host have one copy of a unit; else null.
    HostMemoryEngine* engine;
  };
  /// Offers copies to `compute_copy`. What is given must outlive this object.
  explicit ShardedCopies(const Parts& parts);

  at::Tensor current_copy(const at::Tensor& parameter) override;
  bool are_gathered() const override { return true; }

  /// The number by which this watcher knows the parameter while it has no memory.
  std::size_t number_without_memory(std::size_t parameter) const { return 2 * count_ + parameter; }
  std::size_t parameter_at(std::size_t memory, std::int64_t element) const override;
  void begin_read(std::size_t number) override;
  void end_read(std::size_t number) noexcept override;

  /// Whether a forward of this rank has read something else than what was agreed.
  bool are_wanted() const { return are_wanted_.load(std::memory_order_relaxed); }
  /// Whether no forward has ever asked for a copy.
  bool are_unused() const { return num_copies_ == 0; }
  /// Agrees on which weights travel in which type. Nothing may be gathered. Collective.
  void agree();

  /// Where an update of the bucket writes its copies, by place in the bucket; empty if it has none.
  std::vector<WeightCopy> targets(const FusedBucket& bucket) const;
  /// The owned elements of the parameter are others.
  void round_again(std::size_t parameter);

  /// Whether the unit is gathered as a part.
  bool has_part(std::size_t unit) const { return parts_[unit] != nullptr; }
  void start(std::size_t unit, Communicator& group);
  void finish(std::size_t unit);
  /// A parameter that its unit's part has brought into memory: its sample since then, and its element 0.
  const WeightSample& sample_in_part(std::size_t parameter) const { return weights_[parameter].sample; }
  const std::byte* elements_in_part(std::size_t parameter) const { return weights_[parameter].elements; }
  const at::Tensor& view_in_part(std::size_t parameter) const { return weights_[parameter].view; }
  /// Frees the part that `finish` has brought. @param unit  has a part
  void close(std::size_t unit);
  /// Frees copies that were rounded here. @param number  of the unit that had their weights, as ShardedWeights counts
  void close_rounded(std::size_t number);
  /// In memory now.
  std::int64_t bytes() const { return bytes_; }

 private:
  enum class Kind { Itself, Copy, Absent };
  enum class Wish : std::uint8_t { Nothing = 0, Copy = 1, Itself = 2 };
  struct Weight {
    std::size_t bucket = 0, place = 0;
    bool is_fused = false;
    std::unique_ptr<WatchedMemory> copy_memory;  // null if it has no copies, or if they are in memory of the unit
    at::Tensor copy;                             // watched
    std::unique_ptr<WatchedMemory> memory;       // null if it is in no part itself, or in memory of the unit
    at::Tensor view;                             // what the parameter is while its part is here
    const std::byte* elements = nullptr;         // and element 0 of that
    WeightSample sample;
    bool has_copy = false;              // in a part. These two are equal on all ranks
    bool is_read_itself = false;        // although it has a copy
    std::uint16_t* own_bits = nullptr;  // element 0 in the message, if it has a copy
    std::atomic<Wish> wish{Wish::Nothing};
  };

  Kind kind_of(std::size_t number) const { return static_cast<Kind>(number / count_); }
  bool is_in_part_itself(std::size_t parameter) const;
  std::size_t unit_to_read(std::size_t number) const;
  void wish(std::size_t parameter, Wish what);
  void round_here(std::size_t parameter, std::size_t unit);
  const std::byte* elements_of(std::size_t parameter) const;
  void make_part(std::size_t unit);
  void make_memory(std::size_t parameter);
  void make_memory_of_host(std::size_t unit);
  WatchedMemory& memory_of(const UnitPart::Entry& entry);
  void open_entries(std::size_t unit);
  void close_entries(std::size_t unit);

  const Parts with_;
  const std::size_t count_;                                          // of parameters
  std::vector<Weight> weights_;                                      // by parameter
  std::unordered_map<const c10::TensorImpl*, std::size_t> indices_;  // of fp32 parameters
  std::vector<std::unique_ptr<UnitPart>> parts_;                     // by unit
  std::vector<std::unique_ptr<WatchedMemory>> of_host_;              // by unit; null if each rank gathers for itself
  std::mutex rounding_;
  std::vector<std::vector<std::size_t>> rounded_;  // by unit as ShardedWeights counts: copies that are open
  std::size_t num_copies_ = 0;
  std::int64_t bytes_ = 0;
  std::atomic<bool> are_wanted_{false};
  std::optional<ComputeCopyOffer> offer_;  // last: the first to go
};

}  // namespace lockstep
