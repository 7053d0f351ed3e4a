#pragma once

#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// Whether an update is decided. A rank writes down what others need for it before it updates its first block. If
/// nobody has written that down when all ranks have ended or left the update, no block has changed, and the update is
/// taken back; else it is finished.
///
/// A rank writes its note of an update over that of the one before it, which all ranks have finished then: all have
/// entered this one.
///
/// `Notes` has `word(rank)`, 0 at first.
template <class Memory, class Notes>
class UpdateDecision {
 public:
  UpdateDecision(Memory& memory, Notes& notes) : memory_(memory), notes_(notes) {}

  /// @param number  of the update, from 1; all ranks have entered it
  /// @param write  writes the content of this rank's note
  template <class Write>
  void decide(std::uint64_t number, const Write& write) {
    write();
    memory_.store(notes_.word(memory_.rank()), number);
  }
  /// A rank whose note of update `number` is complete; -1 if there is none.
  int decided_by(std::uint64_t number) const {
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      if (memory_.load(notes_.word(rank)) == number) return rank;
    }
    return -1;
  }

 private:
  Memory& memory_;
  Notes& notes_;
};

/// A journal of notes and lanes takes the place of that of other ranks, whose updates are all finished. All of its
/// ranks may die at any access: ranks that come later then find the old journal, or none, or the whole new one. Words
/// that counted before they are cleared could be those of another training, whose updates had the same numbers.
///
/// `Journal` has `ranks_word()`, the number of ranks whose words count, and `clear()`, which stores 0 in this rank's
/// words.
template <class Memory, class Journal>
class JournalChange {
 public:
  JournalChange(Memory& memory, Journal& journal) : memory_(memory), journal_(journal) {}

  /// @param meet  a barrier of all ranks of the new journal. No update begins before all ranks have returned.
  template <class Meet>
  void begin(const Meet& meet) {
    if (memory_.rank() == 0) memory_.store(journal_.ranks_word(), 0);
    meet();
    journal_.clear();
    meet();
    if (memory_.rank() == 0) {
      memory_.store(journal_.ranks_word(), static_cast<std::uint64_t>(memory_.world_size()));
    }
  }

 private:
  Memory& memory_;
  Journal& journal_;
};

}  // namespace lockstep::shm
