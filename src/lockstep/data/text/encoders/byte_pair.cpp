#include "lockstep/data/text/encoders/byte_pair.h"

#include <algorithm>
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/text/encoders/byte_level.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
/// Up to this many parts, checking every pair for the best one is faster than a heap.
constexpr std::size_t kFewParts = 96;

TokenId require(const Vocabulary& vocabulary, const std::string& token, const Merge& merge) {
  if (const auto id = vocabulary.find(token)) return *id;
  throw Error("the merge of '" + merge.left + "' and '" + merge.right + "' needs the token '" + token +
                  "', which the vocabulary lacks",
              merge.where, "take the merges and the vocabulary from the same model");
}

/// Index of the lowest of `count` numbers, the first if several are equal; without unpredictable branches.
std::size_t first_lowest(const std::uint32_t* numbers, std::size_t count) {
  std::uint64_t best[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
  std::size_t i = 0;
  for (; i + 1 < count; i += 2) {
    best[0] = std::min(best[0], (static_cast<std::uint64_t>(numbers[i]) << 32) | i);
    best[1] = std::min(best[1], (static_cast<std::uint64_t>(numbers[i + 1]) << 32) | (i + 1));
  }
  if (i < count) best[0] = std::min(best[0], (static_cast<std::uint64_t>(numbers[i]) << 32) | i);
  return std::min(best[0], best[1]) & 0xFFFFFFFFu;
}

}  // namespace

BytePairModel::BytePairModel(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                             const BytePairOptions& options)
    : byte_ranks_(std::size_t{1} << 16),
      fuse_unk_(options.fuse_unk),
      whole_words_(options.ignore_merges ? &vocabulary : nullptr) {
  if (vocabulary.id_limit() > (1 << kIdBits) || merges.size() >= (1u << kRankBits) - 1) {
    throw Error("the vocabulary has " + std::to_string(vocabulary.id_limit()) + " numbers and " +
                    std::to_string(merges.size()) + " merges, more than two million",
                "byte pair encoding", "use a smaller vocabulary");
  }
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char raw = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary.find(to_byte_level({&raw, 1})).value_or(-1);
  }
  if (options.unk_token) {
    const auto id = vocabulary.find(*options.unk_token);
    if (!id) {
      throw Error("the vocabulary lacks the unknown token '" + *options.unk_token + "'", "byte pair encoding",
                  "name the unknown token that the vocabulary has");
    }
    unk_id_ = *id;
  }
  int bits = 4;
  while ((std::size_t{1} << bits) < 2 * merges.size()) ++bits;
  slots_.assign(std::size_t{1} << bits, kEmpty);
  shift_ = 64 - bits;
  merged_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const TokenId left = require(vocabulary, merge.left, merge);
    const TokenId right = require(vocabulary, merge.right, merge);
    add(pack(left, right), static_cast<std::uint32_t>(merged_.size()), merge);
    merged_.push_back(require(vocabulary, merge.left + merge.right, merge));
  }
  for (std::size_t pair = 0; pair < byte_ranks_.size(); ++pair) {
    const TokenId left = byte_ids_[pair >> 8];
    const TokenId right = byte_ids_[pair & 0xFF];
    byte_ranks_[pair] = left < 0 || right < 0 ? kNoRank : rank_of(left, right);
  }
}

void BytePairModel::add(std::uint64_t pair, std::uint32_t rank, const Merge& merge) {
  std::size_t at = home(pair);
  for (; slots_[at] != kEmpty; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at] >> kRankBits != pair) continue;
    throw Error("the merge of '" + merge.left + "' and '" + merge.right + "' occurs twice", merge.where,
                "remove one of them, or download the merges again");
  }
  slots_[at] = (pair << kRankBits) | rank;
}

std::uint32_t BytePairModel::rank_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = pack(left, right);
  for (std::size_t at = home(pair); slots_[at] != kEmpty; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at] >> kRankBits == pair) return static_cast<std::uint32_t>(slots_[at] & ((1u << kRankBits) - 1));
  }
  return kNoRank;
}

int BytePairModel::missing_bytes() const {
  return static_cast<int>(std::count_if(byte_ids_.begin(), byte_ids_.end(), [](TokenId id) { return id < 0; }));
}

void BytePairModel::cut(std::string_view word, std::vector<WordPart>& parts, std::vector<std::uint64_t>& space) const {
  if (whole_words_ != nullptr) {
    if (const auto id = whole_words_->find(to_byte_level(word))) {
      parts.push_back({*id, 0, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  const std::size_t first = parts.size();
  start(word, parts);
  if (parts.size() - first < 2) return;
  if (parts.size() - first <= kFewParts) {
    merge_few(word, parts, first);
  } else {
    merge_many(parts, first, space);
  }
}

void BytePairModel::start(std::string_view word, std::vector<WordPart>& parts) const {
  bool after_unk = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(word[i])];
    const auto at = static_cast<std::uint32_t>(i);
    if (id < 0 && unk_id_ < 0) continue;
    if (id < 0 && after_unk && fuse_unk_) {
      parts.back().end = at + 1;
      continue;
    }
    after_unk = id < 0;
    parts.push_back({id < 0 ? unk_id_ : id, at, at + 1});
  }
}

void BytePairModel::merge_few(std::string_view word, std::vector<WordPart>& parts, std::size_t first) const {
  std::size_t count = parts.size() - first;
  WordPart* part = parts.data() + first;
  // ranks[i] is the rank of parts i and i + 1.
  std::uint32_t ranks[kFewParts];
  const bool only_bytes = count == word.size() && unk_id_ < 0;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    ranks[i] = only_bytes
                   ? byte_ranks_[static_cast<unsigned char>(word[i]) << 8 | static_cast<unsigned char>(word[i + 1])]
                   : rank_of(part[i].id, part[i + 1].id);
  }
  while (count > 1) {
    const std::size_t best = first_lowest(ranks, count - 1);
    if (ranks[best] == kNoRank) break;
    part[best].id = merged_[ranks[best]];
    part[best].end = part[best + 1].end;
    std::copy(part + best + 2, part + count, part + best + 1);
    if (best + 2 < count) std::copy(ranks + best + 2, ranks + count - 1, ranks + best + 1);
    --count;
    if (best > 0) ranks[best - 1] = rank_of(part[best - 1].id, part[best].id);
    if (best + 1 < count) ranks[best] = rank_of(part[best].id, part[best + 1].id);
  }
  parts.resize(first + count);
}

void BytePairModel::merge_many(std::vector<WordPart>& parts, std::size_t first,
                               std::vector<std::uint64_t>& space) const {
  const auto count = static_cast<std::uint32_t>(parts.size() - first);
  WordPart* part = parts.data() + first;
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Links {
    std::uint32_t previous;
    std::uint32_t next;
  };
  std::vector<Links> links(count);
  for (std::uint32_t i = 0; i < count; ++i) links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};

  // A heap of rank << 32 | position: the best merge first, the leftmost first among equals.
  std::vector<std::uint64_t>& heap = space;
  heap.clear();
  const auto later = std::greater<std::uint64_t>();
  const auto offer = [&](std::uint32_t left, std::uint32_t right) {
    const std::uint32_t rank = rank_of(part[left].id, part[right].id);
    if (rank == kNoRank) return;
    heap.push_back((static_cast<std::uint64_t>(rank) << 32) | left);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (std::uint32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const auto rank = static_cast<std::uint32_t>(heap.back() >> 32);
    const auto left = static_cast<std::uint32_t>(heap.back());
    heap.pop_back();
    const std::uint32_t right = part[left].id < 0 ? kNone : links[left].next;
    // One of the two was merged after this entry was made; the new pair has its own entry in the heap.
    if (right == kNone || rank_of(part[left].id, part[right].id) != rank) continue;
    part[left].id = merged_[rank];
    part[left].end = part[right].end;
    part[right].id = -1;
    links[left].next = links[right].next;
    if (links[left].next != kNone) {
      links[links[left].next].previous = left;
      offer(left, links[left].next);
    }
    if (links[left].previous != kNone) offer(links[left].previous, left);
  }
  const auto merged_away = [](const WordPart& one) { return one.id < 0; };
  parts.erase(std::remove_if(parts.begin() + static_cast<std::ptrdiff_t>(first), parts.end(), merged_away),
              parts.end());
}

void warn_of_missing_bytes(const BytePairModel& model, const BytePairOptions& options) {
  if (model.missing_bytes() == 0 || options.unk_token) return;
  log_warning("the vocabulary lacks {} of the 256 bytes and names no unknown token: they will vanish from texts",
              model.missing_bytes());
}

}  // namespace lockstep::text
