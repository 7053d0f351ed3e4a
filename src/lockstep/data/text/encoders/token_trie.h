#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// Finds the longest token that a text starts with. A double array (Aoe, 1989): one step along a token is one memory
/// access.
class TokenTrie {
 public:
  struct Match {
    TokenId id;
    std::size_t length;  ///< 0: no token matches
  };

  TokenTrie() : TokenTrie(std::vector<std::pair<std::string_view, TokenId>>()) {}
  /// @param tokens  none of them empty or repeated; ids of 0 or more
  explicit TokenTrie(std::vector<std::pair<std::string_view, TokenId>> tokens);

  Match longest_prefix(std::string_view text) const {
    Match best = {-1, 0};
    std::uint32_t node = kRoot;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::uint32_t child = nodes_[node].children ^ static_cast<unsigned char>(text[i]);
      if (nodes_[child].parent != node) break;
      node = child;
      if (nodes_[node].token >= 0) best = {nodes_[node].token, i + 1};
    }
    return best;
  }

 private:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  /// The child of a node by a byte is at `children ^ byte`, and stores its parent.
  struct Node {
    std::uint32_t children = 0;
    std::uint32_t parent = kNobody;
    TokenId token = -1;  // the token that ends here
  };

  class Builder;

  std::vector<Node> nodes_;  // whole blocks of 256, so that every `children ^ byte` is inside
};

}  // namespace lockstep::text
