#include "lockstep/data/text/token_trie.h"

#include <utility>

namespace lockstep::text {

TokenTrie::TokenTrie(std::size_t expected_bytes) : tokens_(1, -1) {
  int bits = 8;
  while ((std::size_t{1} << bits) < expected_bytes) ++bits;
  rehash(bits);
}

void TokenTrie::add(std::string_view token, TokenId id) {
  std::uint32_t node = 0;
  for (const char byte : token) node = child_or_new(node, static_cast<unsigned char>(byte));
  tokens_[node] = id;
}

TokenTrie::Match TokenTrie::longest_prefix(std::string_view text) const {
  Match best = {-1, 0};
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Slot& slot = find(key_of(node, static_cast<unsigned char>(text[i])));
    if (slot.key == 0) break;
    node = slot.child;
    if (tokens_[node] >= 0) best = {tokens_[node], i + 1};
  }
  return best;
}

const TokenTrie::Slot& TokenTrie::find(std::uint64_t key) const {
  std::size_t at = home(key);
  while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

std::uint32_t TokenTrie::child_or_new(std::uint32_t node, unsigned char byte) {
  const std::uint64_t key = key_of(node, byte);
  const Slot& found = find(key);
  if (found.key != 0) return found.child;
  if (tokens_.size() * 2 > slots_.size()) rehash(64 - shift_ + 1);
  Slot& slot = const_cast<Slot&>(find(key));
  slot = {key, static_cast<std::uint32_t>(tokens_.size())};
  tokens_.push_back(-1);
  return slot.child;
}

void TokenTrie::rehash(int bits) {
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::size_t{1} << bits));
  shift_ = 64 - bits;
  for (const Slot& slot : old) {
    if (slot.key != 0) const_cast<Slot&>(find(slot.key)) = slot;
  }
}

}  // namespace lockstep::text
