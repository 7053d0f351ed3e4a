#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/weights/gathered_parts.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/fused/weights/unit_gathering.h"
#include "lockstep/tensor/compute_copy.h"

namespace lockstep {

/// The bf16 copies of weights in shards: each owner rounds its elements once, in the update, and 2 bytes an element
/// travel when a unit is gathered.
///
/// `compute_copy` gets a watched tensor, which is gathered when LibTorch reads it, in forward and in backward. The
/// ranks agree in a step which weights forwards have asked copies of. From then on a unit that has any is gathered as a
/// part (`GatheredParts`): those weights in bf16, and its others in their own type. Before that, and if a program reads
/// such a weight itself, all of the unit is gathered in its own type, and a copy that is read is rounded here. As long
/// as a weight itself is in memory there is no copy: casting it needs no message, and sees what was written.
///
/// Numbers that the watch knows: for n parameters, i is parameter i in its own type, n + i its copy, and 2n + i the
/// parameter while it has no memory. The memory of unit k has number 3n + k.
class ShardedCopies final : public ReadWatcher, public ComputeCopySource {
 public:
  /// Offers copies to `compute_copy`. What is given must outlive this object. @param gathering  of these units
  ShardedCopies(const GatheredParts::Needs& needs, UnitGathering& gathering, Communicator& communicator);

  at::Tensor current_copy(const at::Tensor& parameter) override;
  bool are_gathered() const override { return true; }

  /// The number by which this watcher knows parameter 0 while it has no memory.
  std::size_t first_without_memory() const { return 2 * count_; }
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
  /// The owned elements of a parameter are others.
  void round_again(std::size_t bucket, std::size_t place);

  GatheredParts& parts() { return parts_; }

 private:
  enum class Kind { Itself, Copy, Absent };
  enum class Wish : std::uint8_t { Nothing = 0, Copy = 1, Itself = 2 };
  struct Weight {
    bool has_copy = false;              // in a part. These two are equal on all ranks
    bool is_read_itself = false;        // although it has a copy
    std::uint16_t* own_bits = nullptr;  // element 0 in the message, if it has a copy
    std::atomic<Wish> wish{Wish::Nothing};
  };

  Kind kind_of(std::size_t number) const { return static_cast<Kind>(number / count_); }
  std::size_t unit_to_read(std::size_t number) const;
  void wish(std::size_t parameter, Wish what);
  void make_part(std::size_t unit);

  const GatheredParts::Needs with_;
  UnitGathering& gathering_;
  Communicator& communicator_;
  const std::size_t count_;  // of parameters
  GatheredParts parts_;
  std::vector<Weight> weights_;                                      // by parameter
  std::unordered_map<const c10::TensorImpl*, std::size_t> indices_;  // of fp32 parameters
  std::size_t num_copies_ = 0;
  std::atomic<bool> are_wanted_{false};
  std::optional<ComputeCopyOffer> offer_;  // last: the first to go
};

}  // namespace lockstep
