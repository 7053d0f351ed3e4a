#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {

/// How far the updates of a lane of memory are, as one word tells it that is written before each block: the elements
/// before `position` are new, and those of the block that begins there may be old, new, or torn. A slot of the undo log
/// has their old values.
struct UndoMark {
  std::uint64_t number = 0;    ///< of the update, from 1; a word keeps its last 16 bits
  std::uint64_t position = 0;  ///< in elements of the lane, less than 2^40
  std::uint64_t elements = 0;  ///< of the block under way; 0 if no block is
  std::uint64_t slot = 0;      ///< 0 or 1

  static constexpr int kNumberBits = 16, kPositionBits = 40, kElementsBits = 7;
  static constexpr std::uint64_t last_bits(std::uint64_t value, int bits) {
    return value & ((std::uint64_t{1} << bits) - 1);
  }

  constexpr std::uint64_t word() const {
    const std::uint64_t place = (last_bits(number, kNumberBits) << kPositionBits) | position;
    return (place << (kElementsBits + 1)) | (elements << 1) | slot;
  }
  static constexpr UndoMark of(std::uint64_t word) {
    UndoMark mark;
    mark.slot = word % 2;
    mark.elements = last_bits(word >> 1, kElementsBits);
    mark.position = last_bits(word >> (kElementsBits + 1), kPositionBits);
    mark.number = word >> (kElementsBits + 1 + kPositionBits);
    return mark;
  }
  /// A word is never older than the update before: each update writes it.
  constexpr bool is_of(std::uint64_t update) const {
    return last_bits(number, kNumberBits) == last_bits(update, kNumberBits);
  }
};

/// The log of a pass over memory that others can read when this process has been killed.
struct UndoLog {
  static constexpr std::size_t kBlock = 64;      ///< elements: two slots stay in the nearest cache
  static constexpr std::size_t kMostArrays = 4;  ///< weights and three buffers of state

  std::array<std::byte*, kMostArrays> arrays{};  ///< element 0 of all that a pass may change
  std::size_t num_arrays = 0;
  std::size_t element_bytes = 0;
  std::byte* slots = nullptr;  ///< slots_bytes(element_bytes)
  std::atomic<std::uint64_t>* word = nullptr;
  std::uint64_t number = 0;    ///< of the update
  std::uint64_t position = 0;  ///< of element 0 in the lane, modulo 2^64: the lane may begin behind it

  static constexpr std::size_t slots_bytes(std::size_t element_bytes) {
    return 2 * kMostArrays * kBlock * element_bytes;
  }

  /// The same, counted from element `first` on.
  UndoLog from(std::size_t first) const {
    UndoLog log = *this;
    for (std::size_t a = 0; a < num_arrays; ++a) log.arrays[a] += first * element_bytes;
    log.position += first;
    return log;
  }

  /// Elements of the block that begins at `begin`: kBlock, or, so that all later ones begin at a cache line, those up
  /// to the line's end. All arrays lie alike in their lines. A vector that crosses lines takes half as long again.
  [[gnu::always_inline]] std::size_t block(std::size_t begin) const {
    constexpr std::size_t kLine = 64;
    const auto first = reinterpret_cast<std::uintptr_t>(arrays[0]) + begin * element_bytes;
    const std::size_t in_line = first % kLine;
    return in_line == 0 ? kBlock : (kLine - in_line) / element_bytes;
  }
  [[gnu::always_inline]] std::byte* place(std::size_t slot, std::size_t array) const {
    return slots + (slot * kMostArrays + array) * kBlock * element_bytes;
  }
  /// Gives elements their old values. May be repeated.
  void restore(std::size_t begin, std::size_t elements, std::size_t slot) const {
    for (std::size_t a = 0; a < num_arrays; ++a) {
      std::memcpy(arrays[a] + begin * element_bytes, place(slot, a), elements * element_bytes);
    }
  }
  // A kill comes between two instructions, and others look when the process has ended: what counts is the order in
  // which this thread executes its stores, which no compiler may change.
  [[gnu::always_inline]] void mark(std::size_t begin, std::size_t elements, std::size_t slot) const {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    word->store(UndoMark{number, position + begin, elements, slot}.word(), std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
};

}  // namespace lockstep
