#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/shm/protocols/update_protocol.h"
#include "lockstep/optim/update/update_lane.h"
#include "lockstep/parallel/fused/recovery/lasting_memory.h"

namespace lockstep {

/// What others need to finish an update that a rank has begun.
struct UpdateNote {
  double factor = 1;                      ///< of the gradients
  double norm = 0;                        ///< of the gradients, for the result of the step
  std::vector<std::uint8_t> contributed;  ///< by parameter: some rank has a gradient
};

/// The memory of `UpdateLane` and `shm::UpdateDecision`: notes, lanes and undo logs of a group's ranks of one host,
/// which outlive them. A rank's number is here its place among them.
class UpdateJournal {
 public:
  /// The journal that a group with this many ranks on this host has there. @param rank  of this process; another
  /// group's journal is only read
  UpdateJournal(std::shared_ptr<LastingMemory> memory, int rank, int world_size);
  static std::size_t note_bytes(std::size_t parameters);
  static std::size_t undo_bytes(std::size_t slots_bytes);

  /// Begins a new one, in place of another group's, whose updates are all finished. Collective over all hosts' ranks.
  /// @throws Error  on every rank, if memory is short
  void begin(Communicator& communicator);

  int lanes() const { return memory_->lanes(); }
  /// This rank is about to begin update `number`, from 1.
  void decide(std::uint64_t number, const UpdateNote& note);
  /// What some rank has noted of the update; nothing if it is not decided. Valid when all ranks have ended or left the
  /// update.
  std::optional<UpdateNote> decision(std::uint64_t number);
  UpdateLane<UpdateJournal> lane(int rank, int lane) { return {*this, lane_word(rank, lane)}; }
  /// The lane's undo log, without arrays.
  UndoLog undo(int rank, int lane, std::uint64_t number);

  // The protocols' access to memory. A kill comes between two instructions, and others look when the process has ended:
  // what counts is the order in which this thread executes its accesses, also the plain ones around a store.
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  std::uint64_t load(const shm::Word& word) const { return word.load(std::memory_order_seq_cst); }
  void store(shm::Word& word, std::uint64_t value) const {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    word.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  shm::Word& word(int rank);
  shm::Word& ranks_word() const { return memory_->header().journal; }
  void clear();

 private:
  std::byte* block(int rank) const;
  shm::Word& lane_word(int rank, int lane);

  std::shared_ptr<LastingMemory> memory_;
  int rank_;
  int world_size_;
  std::size_t parameters_;
  std::size_t note_bytes_;
  std::size_t undo_bytes_;
};

}  // namespace lockstep
