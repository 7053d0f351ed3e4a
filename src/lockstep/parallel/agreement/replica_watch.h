#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/agreement/buffer_watch.h"

namespace lockstep {

/// Notices that replicas drift apart: that a rank alone wrote parameters, in place or into other memory, or that the
/// ranks wrote different values.
///
/// In every step each rank describes its tensors by 32 bits, which travel with messages that are sent anyway. 12 of
/// them show how often each tensor was written since the last step, as far as autograd counts it, and whether it has
/// other memory; 8 show the same of the buffers; 12 show one element of each tensor, another one in each step. The
/// tensors are compared only if the ranks' bits differ.
///
/// Ranks may write differently and still be right: one rank swaps an average in, evaluates, and swaps it out. And
/// updates may be rounded differently by different processors. So only tensors that differ by more than rounding are
/// an Error. A program whose ranks write differently in every step, and equally in the end, pays for a comparison in
/// every step: a note says so.
class ReplicaWatch {
 public:
  /// @param tensors  the same on every rank, which are equal as long as the replicas are
  explicit ReplicaWatch(std::vector<NamedTensor> tensors);
  /// Watches buffers as well. @param list  as in BufferWatch
  void watch_buffers(std::function<std::vector<NamedTensor>()> list) { buffers_ = BufferWatch(std::move(list)); }

  /// From now on nothing is noticed. Call it on every rank or on none.
  void stop() { is_stopped_ = true; }
  /// Leaves the tensor to others, or watches it again.
  void set_left_out(std::size_t index, bool is_left_out) { watched_[index].is_left_out = is_left_out; }

  /// All of them, in the order given.
  std::vector<NamedTensor> tensors() const;
  /// Looks at this rank's tensors. Called at the same points on every rank. @return  bits that are equal on all ranks
  /// unless replicas drift apart or a rank alone has written
  std::uint32_t look();
  /// Call it on every rank after `look`, with the bits in which the ranks differ. Collective.
  /// @throws AgreedError  if a tensor differs by more than rounding; it names the tensor and the rank
  void compare(Communicator& communicator, std::uint32_t differing_bits);

 private:
  struct Watched {
    NamedTensor entry;
    const void* data = nullptr;
    std::uint32_t version = 0;
    bool is_left_out = false;
  };

  bool compare_tensors(Communicator& communicator);
  void note_needless_comparison(Communicator& communicator);

  bool is_stopped_ = false;
  std::vector<Watched> watched_;
  BufferWatch buffers_;
  std::uint64_t looks_ = 0;
  std::uint64_t next_comparison_ = 0;         // because of elements
  std::uint64_t next_buffer_comparison_ = 0;  // because buffers are written differently in many steps
  int needless_comparisons_ = 0;              // in a row
  bool has_noted_ = false;                    // that they are needless
};

}  // namespace lockstep
