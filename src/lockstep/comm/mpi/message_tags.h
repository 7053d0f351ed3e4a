#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// The tags of a group's messages. MPI's tags are shorter than the 56 bits of a slot: the top bit distinguishes packets
/// from other messages, the rest is a hash. Messages of different operations that are pending at once between two ranks
/// match wrongly with a chance of one in 2^30.
class MessageTags {
 public:
  /// @param bits  of a tag
  MessageTags(const std::string& group, int bits) : salt_(hash_of(group)), bits_(bits) {}

  int message(std::uint64_t slot) const {
    std::uint64_t mixed = (slot ^ salt_) * 0x9e3779b97f4a7c15ull;
    mixed ^= mixed >> 29;
    return static_cast<int>(mixed & ((1ull << (bits_ - 1)) - 1));
  }
  int packet() const { return message(0) | (1 << (bits_ - 1)); }

 private:
  static std::uint64_t hash_of(const std::string& text) {
    std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return hash;
  }

  const std::uint64_t salt_;
  const int bits_;
};

}  // namespace lockstep
