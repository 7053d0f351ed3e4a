#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/transient_memory.h"
#include "lockstep/parallel/fused/update_plan.h"

namespace lockstep {

/// Parameters of one unit that are gathered together, each whole, and nothing else: some in their own type, others as
/// bf16 copies. Each owner packs its elements of them into one message.
class UnitPart {
 public:
  struct Entry {
    std::size_t parameter = 0;          ///< for the caller
    std::size_t bucket = 0, place = 0;  ///< of the parameter
    std::int64_t offset = 0;            ///< in the bucket, in elements
    std::int64_t numel = 0;
    bool is_copy = false;  ///< in bf16
    std::size_t element_size = 0;
  };
  /// The elements of an entry that one owner has, [begin, end) of the parameter, and where its message has them.
  struct Piece {
    std::int64_t begin = 0, end = 0;
    std::size_t at = 0;  ///< bytes
  };

  /// @param entries  equal on all ranks. Those of large elements become the first ones
  /// @param plan  if it gathers for hosts, messages are long enough that all of them together are as long as `bytes`
  UnitPart(std::vector<Entry> entries, const UpdatePlan& plan, int rank);

  const std::vector<Entry>& entries() const { return entries_; }
  /// Element 0 of the entry, as if this rank's message had all of it: only owned elements may be touched. Copies stay
  /// in the message from one gathering to the next.
  std::byte* own_elements(std::size_t entry) const;
  const Piece& own_piece(std::size_t entry) const { return pieces_[rank_][entry]; }

  /// The byte at which an entry lies in memory that has all of them, whole, and the length of such memory.
  std::size_t place(std::size_t entry) const { return places_[entry]; }
  std::size_t bytes() const { return bytes_; }
  /// The entry in such memory that has this byte.
  std::size_t entry_at(std::size_t byte) const;
  /// Where an all_gather of messages into such memory puts them.
  GatherLayout layout() const;
  /// The length of all owners' messages.
  std::int64_t all_messages_bytes() const { return static_cast<std::int64_t>(pieces_.size() * message_.nbytes()); }

  /// Sends this rank's message. The other ranks must do so, too.
  void start(Communicator& group);
  /// The same, into memory that has this layout. `unpack` is not needed.
  void start_into(Communicator& group, const at::Tensor& memory);
  /// Waits for all messages, and gives the pages of this rank's back, but for those of copies.
  void wait();
  /// Writes each entry to its memory, after `wait`. @param memory  by entry: element 0
  void unpack(const std::vector<std::byte*>& memory);

  /// What stays of this rank's message from one gathering to the next: the copies.
  std::int64_t kept_bytes() const { return static_cast<std::int64_t>(message_.nbytes() - passing_bytes_); }
  /// The length of other weights in it, which are there from `start` to `wait`; 0 if they are few.
  std::int64_t passing_bytes() const { return static_cast<std::int64_t>(passing_bytes_); }
  /// The length of all owners' messages, between `start` and `unpack`; else 0.
  std::int64_t received_bytes() const {
    return received_.defined() ? static_cast<std::int64_t>(received_.nbytes()) : 0;
  }

 private:
  void count_passing();

  std::vector<Entry> entries_;
  std::vector<std::vector<Piece>> pieces_;  // by owner and entry
  std::vector<std::size_t> places_;         // by entry
  std::size_t bytes_ = 0;
  std::size_t rank_;
  std::size_t passing_bytes_ = 0;
  at::Tensor message_, received_;  // bytes
  std::shared_ptr<Work> work_;
};

}  // namespace lockstep
