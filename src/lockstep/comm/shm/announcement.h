#pragma once

#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

constexpr int kSequenceBits = 40;

/// The parts of an Announcement.
struct Announced {
  std::uint8_t kind = 0;
  std::uint8_t op = 0;
  std::uint8_t dtype = 0;
  std::int32_t root = 0;
  std::int64_t count = 0;
  std::uint64_t sequence = 0;  ///< below 2^40: enough for a year of operations of 30 µs each
  std::uint32_t mark = 0;      ///< mark of the EnclosingOperation
};

inline Announcement pack(const Announced& parts) {
  const std::uint64_t first = parts.kind | std::uint64_t{parts.op} << 8 | std::uint64_t{parts.dtype} << 16 |
                              std::uint64_t{parts.mark & 0xff} << 24 |
                              std::uint64_t{static_cast<std::uint32_t>(parts.root)} << 32;
  return {{first, static_cast<std::uint64_t>(parts.count),
           parts.sequence | std::uint64_t{parts.mark >> 8} << kSequenceBits}};
}

inline Announced unpack(const Announcement& announcement) {
  const std::uint64_t first = announcement.words[0];
  return {static_cast<std::uint8_t>(first),
          static_cast<std::uint8_t>(first >> 8),
          static_cast<std::uint8_t>(first >> 16),
          static_cast<std::int32_t>(first >> 32),
          static_cast<std::int64_t>(announcement.words[1]),
          announcement.words[2] & ((std::uint64_t{1} << kSequenceBits) - 1),
          static_cast<std::uint32_t>(first >> 24 & 0xff) |
              static_cast<std::uint32_t>(announcement.words[2] >> kSequenceBits) << 8};
}

}  // namespace lockstep::shm
