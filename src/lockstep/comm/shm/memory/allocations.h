#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/memory/control_block.h"
#include "lockstep/comm/shm/memory/memory_sharing.h"

namespace lockstep::shm {

/// Memory of which every rank has a part, and which every rank has mapped as a whole. The pages live until the last
/// rank has released them; a rank's own mapping lives as long as this object.
class SymmetricBuffer {
 public:
  /// @param file  what `mapping` maps, if its pages come when they are written
  SymmetricBuffer(std::shared_ptr<Mapping> mapping, UniqueFd file, std::uint64_t segment, std::size_t part_bytes)
      : mapping_(std::move(mapping)),
        has_file_(static_cast<bool>(file)),
        file_(std::move(file)),
        segment_(segment),
        part_bytes_(part_bytes) {}
  std::byte* part(int rank) const { return mapping_->data() + static_cast<std::size_t>(rank) * part_bytes_; }
  std::size_t part_bytes() const { return part_bytes_; }
  std::uint64_t segment() const { return segment_; }
  Mapping& mapping() const { return *mapping_; }
  /// Whether pages come when they are written.
  bool has_file() const { return has_file_; }
  /// The file, for the caller to close. Once.
  UniqueFd take_file() { return std::move(file_); }

 private:
  std::shared_ptr<Mapping> mapping_;
  bool has_file_;
  UniqueFd file_;
  std::uint64_t segment_;
  std::size_t part_bytes_;
};

/// When the pages of symmetric memory come.
enum class Supply {
  AtOnce,   ///< memory is there when `allocate` returns
  OnWrite,  ///< in a file that a rank can map once more
};

/// The symmetric memory of a group. Thread-safe, but `allocate` is collective.
class Allocations {
 public:
  Allocations(Group& group, MemorySharing& sharing) : group_(group), sharing_(sharing) {}

  /// Collective: every rank requests the same `bytes` and supply.
  /// @throws Error  if memory is short on any rank (the group stays usable), if the ranks disagree, or if the group
  /// ends
  std::shared_ptr<SymmetricBuffer> allocate(std::size_t bytes, Deadline deadline, Supply supply = Supply::AtOnce);

  /// The buffer in which this rank's part contains the `bytes` at `data`; null if there is none.
  std::shared_ptr<SymmetricBuffer> find(const std::byte* data, std::size_t bytes);

  /// Removes this rank's parts from the memory to which others can write.
  void detach() noexcept;

 private:
  void exchange_round(const Call& call);
  void check_same_bytes(std::size_t bytes);
  void throw_if_failed(std::size_t bytes);
  SetupCell& setup(int rank) { return group_.cell(rank).setup[round_ % 2]; }

  Group& group_;
  MemorySharing& sharing_;
  std::mutex allocate_mutex_;
  std::uint64_t round_ = 0;  // of exchange_round
  std::uint64_t next_segment_ = kFirstSegment;
  std::mutex mutex_;  // guards the members below
  std::map<const std::byte*, std::weak_ptr<SymmetricBuffer>> by_address_;
};

}  // namespace lockstep::shm
