#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/symmetric_memory.h"

namespace lockstep {

class Slices;

/// All ranks' terms of one bucket, read where they lie by ranks that share memory.
class TermsInPlace {
 public:
  /// Not collective. @param memory  of the bucket; @param bucket  its index in the reducer's list
  /// @param by_rank  element 0 of each rank's bucket; empty if the communicator allocated `memory`
  TermsInPlace(const Slices& slices, const at::Tensor& memory, std::size_t bucket, Communicator& communicator,
               const std::vector<void*>& by_rank = {});

  /// Pointers to element `begin` of the terms, in the order of the plan.
  std::vector<const void*> from(std::int64_t begin) const;
  /// Runs `body`, which reads the terms while the group lives. @throws Error  if it has ended
  template <typename Body>
  void access(const Body& body) const {
    keepers_.empty() ? body() : keepers_.front()->access(body);
  }

 private:
  std::vector<std::shared_ptr<SymmetricMemory>> keepers_;  // of the communicator's memory
  std::vector<const std::byte*> first_;                    // element 0 of each term
  std::int64_t element_bytes_;
};

}  // namespace lockstep
