#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/comm/shm/memory/descriptor_inbox.h"
#include "lockstep/comm/shm/memory/memory_segment.h"

namespace lockstep::shm {

/// Shared memory as one rank holds it.
struct Segment {
  std::shared_ptr<Mapping> mapping;
  UniqueFd fd;  ///< its file; empty if `make` made it between threads
};

/// A rank to which memory is offered: its inbox, and the label under which it will look for the memory.
struct Recipient {
  std::uint64_t inbox = 0;
  Label label;
};

/// How ranks come to map the same memory. Thread-safe.
class MemorySharing {
 public:
  virtual ~MemorySharing() = default;
  /// The inbox at which this rank receives the offers of others: unique on the host.
  virtual std::uint64_t inbox() const = 0;
  /// Where inboxes are: offers arrive between ranks for which this is equal. One line. @throws Error  with the cause
  virtual std::string inbox_folder() const = 0;
  /// Makes `bytes` of zeroed memory, a multiple of the page size. @throws Error  with the cause
  virtual Segment make(std::size_t bytes) = 0;
  /// The same, in a file that has pages where somebody has written.
  virtual Segment make_file(std::size_t bytes) = 0;
  /// Delivers the segment; the recipient need not be waiting. False if the recipient is gone. @throws Error  with the
  /// cause
  virtual bool offer(const Segment& segment, const Recipient& to, Deadline deadline) = 0;
  /// Maps what was offered to this rank under `label`; nothing if it has not arrived after `patience`.
  /// @throws Error  with the cause, also if the memory does not have `bytes` bytes
  virtual Segment accept(const Label& label, std::size_t bytes, std::chrono::milliseconds patience) = 0;
  /// Allocates the pages of a part, so that no later access fails. @throws Error  if memory is short
  virtual void reserve(const Segment& segment, std::size_t offset, std::size_t bytes) = 0;
  /// True if a pointer of one rank is valid for the others.
  virtual bool one_address_space() const = 0;
};

/// Between processes of one host: sealed memory files, whose descriptors are passed over Unix sockets.
std::unique_ptr<MemorySharing> share_between_processes();
/// Between threads of this process.
std::unique_ptr<MemorySharing> share_between_threads();

}  // namespace lockstep::shm
