#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/comm/shm/memory_segment.h"

namespace lockstep::shm {

/// Memory that one rank has made and the others may come to, for as long as the object lives.
struct Offer {
  std::shared_ptr<Mapping> mapping;
  SegmentAddress address;
  std::shared_ptr<void> keeper;  ///< what lets others in
};

/// How ranks come to map the same memory.
class MemorySharing {
 public:
  virtual ~MemorySharing() = default;
  /// Makes `bytes` of zeroed memory, a multiple of the page size. @throws Error  with the cause
  virtual Offer offer(std::size_t bytes) = 0;
  /// Maps what another rank offers, and allocates the pages of the part that is to be this rank's, or none.
  /// @throws Error  with the cause
  virtual std::shared_ptr<Mapping> accept(const SegmentAddress& address) = 0;
  /// Allocates the pages of a part, on this rank's side of the machine. Called while the offer stands.
  /// @throws Error  where memory is short
  virtual void reserve(const SegmentAddress& address, std::size_t offset, std::size_t bytes) = 0;
  /// True where a pointer of one rank means the same to the others.
  virtual bool one_address_space() const = 0;
};

/// Between processes of one host: sealed memory files.
std::unique_ptr<MemorySharing> share_between_processes();
/// Between threads of this process.
std::unique_ptr<MemorySharing> share_between_threads();

}  // namespace lockstep::shm
