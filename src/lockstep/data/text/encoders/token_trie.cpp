#include "lockstep/data/text/encoders/token_trie.h"

#include <algorithm>
#include <string>

namespace lockstep::text {

/// Lays out the nodes; nodes of short prefixes are first.
class TokenTrie::Builder {
 public:
  using Tokens = std::vector<std::pair<std::string_view, TokenId>>;

  Builder(const Tokens& tokens, std::vector<Node>& nodes) : tokens_(tokens), nodes_(nodes) {}

  void build() {
    add_block();
    std::vector<Task> level = {{kRoot, 0, 0, tokens_.size()}};
    while (!level.empty()) {
      std::vector<Task> next;
      for (const Task& task : level) place_children(task, next);
      level = std::move(next);
    }
  }

 private:
  static constexpr std::size_t kBlock = 256;
  /// How many free places to try before the array grows.
  static constexpr int kTries = 64;

  /// The tokens [begin, end) pass through this node after `depth` bytes.
  struct Task {
    std::uint32_t node;
    std::size_t depth;
    std::size_t begin;
    std::size_t end;
  };

  void place_children(const Task& task, std::vector<Task>& next) {
    std::size_t at = task.begin;
    if (at < task.end && tokens_[at].first.size() == task.depth) nodes_[task.node].token = tokens_[at++].second;
    if (at == task.end) return;
    const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(tokens_[i].first[task.depth]); };
    labels_.clear();
    for (std::size_t i = at; i < task.end; ++i) {
      if (labels_.empty() || labels_.back() != byte_at(i)) labels_.push_back(byte_at(i));
    }
    const std::uint32_t children = find_place();
    nodes_[task.node].children = children;
    for (const unsigned char label : labels_) {
      const std::uint32_t child = children ^ label;
      nodes_[child].parent = task.node;
      const std::size_t begin = at;
      while (at < task.end && byte_at(at) == label) ++at;
      next.push_back({child, task.depth + 1, begin, at});
    }
  }

  /// A number whose places for all `labels_` are free.
  std::uint32_t find_place() {
    int tries = 0;
    while (first_free_ < nodes_.size() && is_taken(first_free_)) ++first_free_;
    for (std::size_t place = first_free_; place < nodes_.size() && tries < kTries; ++place) {
      if (is_taken(place)) continue;
      ++tries;
      const std::uint32_t children = static_cast<std::uint32_t>(place) ^ labels_.front();
      const auto free = [&](unsigned char label) { return !is_taken(children ^ label); };
      if (std::all_of(labels_.begin(), labels_.end(), free)) return children;
    }
    // The places before are full of small gaps that are not worth checking again.
    if (tries == kTries) first_free_ = std::max(first_free_, nodes_.size() - kBlock);
    const std::size_t place = nodes_.size();
    add_block();
    return static_cast<std::uint32_t>(place) ^ labels_.front();
  }

  bool is_taken(std::size_t place) const { return place == kRoot || nodes_[place].parent != kNobody; }
  void add_block() { nodes_.resize(nodes_.size() + kBlock); }

  const Tokens& tokens_;
  std::vector<Node>& nodes_;
  std::vector<unsigned char> labels_;
  std::size_t first_free_ = 0;
};

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, TokenId>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  Builder(tokens, nodes_).build();
}

}  // namespace lockstep::text
