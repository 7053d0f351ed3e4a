#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/data/text/token_id.h"

namespace lockstep::text {

/// Finds the longest token that a text starts with. Nodes are joined by one hash table from (node, byte) to node, so a
/// step costs one look-up whatever the node's fan-out.
class TokenTrie {
 public:
  struct Match {
    TokenId id;
    std::size_t length;  ///< 0: no token matches
  };

  /// @param expected_bytes  about how many bytes all tokens have together
  explicit TokenTrie(std::size_t expected_bytes = 0);

  /// `token` must not be empty, nor have been added before.
  void add(std::string_view token, TokenId id);
  Match longest_prefix(std::string_view text) const;

 private:
  struct Slot {
    std::uint64_t key;  // node << 8 | byte, plus 1; 0: empty
    std::uint32_t child;
  };

  static std::uint64_t key_of(std::uint32_t node, unsigned char byte) {
    return ((static_cast<std::uint64_t>(node) << 8) | byte) + 1;
  }
  std::size_t home(std::uint64_t key) const { return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> shift_); }
  const Slot& find(std::uint64_t key) const;
  std::uint32_t child_or_new(std::uint32_t node, unsigned char byte);
  void rehash(int bits);

  std::vector<Slot> slots_;
  std::vector<TokenId> tokens_;  // by node; negative: none ends here
  int shift_ = 0;
};

}  // namespace lockstep::text
