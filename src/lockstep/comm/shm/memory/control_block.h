#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::shm {

/// The content of the memory that all ranks of a group map first. Everything that several ranks access is atomic, with
/// the initial value zero. A cache line that one rank writes and others poll holds nothing else.
using Word = std::atomic<std::uint64_t>;
using HalfWord = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && HalfWord::is_always_lock_free, "atomics must work between processes");
static_assert(sizeof(Word) == 8 && sizeof(HalfWord) == 4);

constexpr std::size_t kLineBytes = 64;
constexpr int kMaxRanks = 256;
/// Operations whose slots can be in use at once; the next operation waits until all ranks have retired the oldest.
constexpr std::uint64_t kSlots = 32;
constexpr std::uint64_t kMagic = 0x36706574736b636cULL;  // changes with the layout

/// The next operation of a rank, in the form that others compare and print: three opaque words.
struct Announcement {
  std::array<std::uint64_t, 3> words{};
  friend bool operator==(const Announcement& a, const Announcement& b) { return a.words == b.words; }
  friend bool operator!=(const Announcement& a, const Announcement& b) { return !(a == b); }
};

/// Announcements of actions other than operations; no operation has these words.
constexpr Announcement kJoining{{~std::uint64_t{0}, 0, 0}};
constexpr Announcement kAllocating{{~std::uint64_t{0}, 1, 0}};

/// The place at which other ranks find a rank's data of one operation.
struct Location {
  std::uint64_t segment = 0;  ///< number of an allocation, or one of the values below
  std::uint64_t offset = 0;   ///< in the rank's part of the segment
};
constexpr std::uint64_t kNowhere = 0;  ///< others cannot reach it
constexpr std::uint64_t kPointer = 1;  ///< ranks are threads of one process: the address itself
constexpr std::uint64_t kStaged = 2;   ///< copied to the rank's box of that number
constexpr std::uint64_t kFirstSegment = 3;

struct GroupHeader {
  std::uint64_t magic;  ///< this and the token are written before another process maps the block
  std::array<std::uint64_t, 2> token;
  std::uint64_t world_size;
  std::uint64_t core_mask_words;
  alignas(kLineBytes) Word broken;    ///< 0, or 1 + the rank that ended the group; never changes again
  alignas(kLineBytes) Word sleepers;  ///< how many threads of all ranks sleep
};

/// Present: has mapped the block and watches the others. Member: has seen that all are present.
enum class RankState : std::uint64_t { Absent = 0, Present = 1, Member = 2, Left = 3 };

/// Why a rank ended the group: a GroupFailure. Written by that rank before it sets `broken`, and not changed after
/// that.
struct BreakRecord {
  HalfWord kind;
  HalfWord blamed;  ///< 1 + GroupFailure::blamed
  std::array<char, 1000> happened;
  std::array<char, 300> fix;
};

/// A rank's entry for one round of an allocation; each allocation has two: for the request, and for its success.
struct SetupCell {
  alignas(kLineBytes) Word bytes;
  Word failed;  ///< 1 if this rank could not do its part
};

struct RankCell {
  alignas(kLineBytes) HalfWord bell;  ///< futex on which this rank's threads sleep
  Word sleeping;                      ///< how many of them
  alignas(kLineBytes) Word state;     ///< RankState
  Word inbox;                         ///< where it receives memory
  Word entered;                       ///< 1 + sequence number of the operation that it entered last
  alignas(kLineBytes) Word working;   ///< how many of this rank's threads touch memory of others
  alignas(kLineBytes) Word round;     ///< round of staged operations
  alignas(kLineBytes) Word retired;   ///< this rank has finished all operations below this number
  alignas(kLineBytes) Word setup_round;
  std::array<SetupCell, 2> setup;  ///< for even and odd rounds: no rank is two rounds ahead of another
  BreakRecord why;
};

/// A rank's part in one operation.
struct SlotCell {
  alignas(kLineBytes) Word arrived;  ///< 1 + sequence number, once the members below are valid
  Word done;                         ///< chunks of any slice that this rank has finished
  std::array<Word, 3> announcement;
  Word segment;
  Word offset;
  alignas(kLineBytes) Word claimed;  ///< chunks of this rank's slice that were taken; its operation above kChunkBits
};
static_assert(sizeof(SlotCell) == 2 * kLineBytes);
constexpr int kChunkBits = 20;

/// A message so small that it travels with its flag: one cache line if it has at most 32 bytes.
struct TinyBox {
  alignas(2 * kLineBytes) Word arrived;  ///< 1 + number of the message
  std::array<Word, 3> announcement;
  std::array<std::byte, 1024 - 32> payload;
};
static_assert(sizeof(TinyBox) == 1024);

}  // namespace lockstep::shm
