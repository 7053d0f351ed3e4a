#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// Notices buffers that some ranks write and others do not: a table that only one rank fills, or torch::load on one
/// rank. Values alone prove nothing, because averages of batch normalisation differ between ranks by design, if no rank
/// sends them. A difference that is noticed is a warning.
class BufferWatch {
 public:
  BufferWatch() = default;  ///< without buffers
  /// @param list  returns the buffers that no rank sends to the others in this step
  explicit BufferWatch(std::function<std::vector<NamedTensor>()> list) : list_(std::move(list)) {}

  /// Looks at this rank's buffers. @return  a number that is equal on all ranks that have written their buffers equally
  /// often, as far as autograd counts it, and given them other memory alike, since the last look
  std::uint64_t look();
  /// Warns, on rank 0, of the first buffer that the ranks have written differently and whose values differ. Collective,
  /// after `look`.
  /// @return  false if all is well
  bool compare(Communicator& communicator);

 private:
  struct Seen {
    const void* data = nullptr;  // null: without storage, and left alone
    std::uint32_t version = 0;
    std::uint64_t writes = 0;  // between the last two looks: twice their number, and 1 if it has other memory
  };

  std::function<std::vector<NamedTensor>()> list_;
  std::vector<NamedTensor> buffers_;  // at the last look
  std::vector<Seen> seen_;            // of each
};

}  // namespace lockstep
