#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/reducer/bucket_layout.h"

namespace lockstep {

/// The flat memory of some gradients.
struct BucketMemory {
  std::vector<std::size_t> parameters;  ///< indices into the list of parameters
  std::vector<std::int64_t> offsets;    ///< of each parameter's gradient, in elements
  at::Tensor memory;                    ///< the gradients: flat, in equal parts of whole cache lines for all ranks
  at::Tensor tail;                      ///< elements behind the gradients, to be sent with them; most buckets have none
  at::Tensor message;                   ///< the gradients and the tail
  GradBucket contents;                  ///< the bucket as a communication hook sees it
};

/// The gradients of a module's parameters, in flat buckets of memory that the communicator allocated. Each parameter
/// has a place in its bucket, and its `grad` is a view of that place, unless autograd or the program puts the gradient
/// elsewhere; `take` then brings it back.
///
/// It sends nothing: Reducer does that during backward, and a fused optimizer's step afterwards.
class GradientBuckets {
 public:
  struct Options {
    BucketCaps caps;
    std::int64_t tail_numel = 0;  ///< elements behind the gradients of the last bucket
    /// Until `lend` or `use_dtype`, the buckets lie in memory of this rank, which takes no pages until it is written.
    bool gets_memory_later = false;
  };
  /// Collective. @param parameters  the same on every rank
  GradientBuckets(std::vector<NamedTensor> parameters, std::shared_ptr<Communicator> communicator,
                  const Options& options);

  std::size_t num_parameters() const { return parameters_.size(); }
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const at::Tensor& parameter(std::size_t index) const { return parameters_[index].tensor; }
  const std::string& name(std::size_t index) const { return parameters_[index].name; }
  /// The place of the parameter's gradient in its bucket, in the parameter's shape.
  const at::Tensor& place(std::size_t parameter) const { return places_[parameter].view; }
  std::size_t bucket_of(std::size_t parameter) const { return places_[parameter].bucket; }

  /// Number of buckets, which are in launch order.
  std::size_t size() const { return buckets_.size(); }
  const BucketMemory& operator[](std::size_t bucket) const { return buckets_[bucket]; }
  GradBucket& for_hook(std::size_t bucket) { return buckets_[bucket].contents; }

  /// Brings the parameter's gradient to its place, or writes zeros there. @return  false if there is no gradient
  /// @throws Error  if the gradient is sparse or requires a gradient itself; the group then ends
  bool take(std::size_t parameter);
  /// Writes zeros to the gradient's place; `grad` keeps its values, in other memory.
  void clear(std::size_t parameter);
  /// Lets the parameter's `grad` be what is in its place.
  void show(std::size_t parameter) { parameters_[parameter].tensor.mutable_grad() = places_[parameter].view; }
  /// Takes `grad` off the parameter: autograd writes what arrives later to other memory. @return  what it was
  at::Tensor take_off(std::size_t parameter);
  /// Whether the parameter's `grad` is in its place.
  bool is_in_place(std::size_t parameter) const;

  /// Gives the bucket memory of the communicator and of this dtype, if it has other memory. Collective.
  /// @throws Error  if memory is short on some rank; use_own_dtype then restores everything
  void use_dtype(std::size_t bucket, at::ScalarType dtype);
  /// Lets the bucket's gradients lie at the beginning of `memory`, which other buckets may use too. Its content is
  /// lost; `place` and `take` mean that memory from now on.
  /// @param is_cleared  false: the content is unspecified, and whoever begins to add to it writes zeros first
  void lend(std::size_t bucket, const at::Tensor& memory, bool is_cleared = true);
  /// Gives every bucket memory of the communicator, if it has none. Collective. @throws Error  as use_dtype does
  void use_group_memory();
  /// Keeps the gradients of every bucket in its parameters' dtype again, in memory of the bucket's own. Not collective.
  void use_own_dtype();

 private:
  struct Place {
    std::size_t bucket = 0;
    at::Tensor view;
  };

  void use_memory(BucketMemory& bucket, const at::Tensor& message, bool is_cleared = true);

  std::vector<NamedTensor> parameters_;
  std::shared_ptr<Communicator> communicator_;
  std::vector<Place> places_;  // by parameter
  std::vector<BucketMemory> buckets_;
  std::vector<bool> is_private_;  // by bucket: the memory is not the communicator's
  std::vector<bool> is_lent_;     // by bucket: other buckets use the memory too
};

}  // namespace lockstep
