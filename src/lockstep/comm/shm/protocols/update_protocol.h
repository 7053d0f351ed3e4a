#pragma once

#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// How far one lane of updates is: the chunks of memory that one thread updates, one after the other. A chunk's new
/// values are written to a draft, and then copied to their place. If a rank is killed, at whatever access, another one
/// copies the draft if it is complete, and continues, as often as is necessary.
///
/// `Memory` has `load`, and `store`, which keeps its place among all accesses of this thread. `Chunks` has `draft(k)`,
/// which writes the new values of chunk k, made from the old ones, to the lane's draft, and `publish(k)`, which copies
/// them to the chunk. One at a time works on a lane: another one only after the one before it has ended, and all of its
/// stores have taken effect.
template <class Memory>
class UpdateLane {
 public:
  /// @param word  of this lane; 0 at first
  UpdateLane(Memory& memory, Word& word) : memory_(memory), word_(word) {}

  /// Does what is left of chunks [0, until) in update `number`. @param number  from 1, less than 2^32
  template <class Chunks>
  void run(std::uint64_t number, std::uint64_t until, const Chunks& chunks) {
    std::uint64_t done = 0;
    const std::uint64_t seen = memory_.load(word_);
    if (seen >> kPlaceBits == number) {
      done = (seen & kPlaceMask) / 2;
      if (seen % 2 != 0) publish(number, done++, chunks);
    }
    for (; done < until; ++done) {
      chunks.draft(done);
      set(number, done, true);
      publish(number, done, chunks);
    }
  }

  /// Whether chunks [0, until) of update `number` are new.
  bool is_done(std::uint64_t number, std::uint64_t until) const {
    return memory_.load(word_) >= ((number << kPlaceBits) | (2 * until));
  }

 private:
  static constexpr int kPlaceBits = 32;
  static constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;

  template <class Chunks>
  void publish(std::uint64_t number, std::uint64_t k, const Chunks& chunks) {
    chunks.publish(k);
    set(number, k + 1, false);
  }
  void set(std::uint64_t number, std::uint64_t done, bool has_draft) {
    memory_.store(word_, (number << kPlaceBits) | (2 * done + (has_draft ? 1 : 0)));
  }

  Memory& memory_;
  Word& word_;
};

/// Whether an update is decided. A rank writes down what others need for it before it updates its first chunk. If
/// nobody has written that down when all ranks have ended or left the update, no chunk has changed, and the update is
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
