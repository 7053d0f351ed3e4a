#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/text/encoders/wordpiece.h"
#include "lockstep/data/text/vocabulary.h"
#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// One line of merges.txt: these two neighbours become one token. Earlier lines are applied first.
struct Merge {
  std::string left;
  std::string right;
  std::string where;  ///< file and line, for errors
};

struct BytePairOptions {
  std::optional<std::string> unk_token;  ///< for bytes that are not in the vocabulary; unset: they are dropped
  bool fuse_unk = false;                 ///< neighbouring unknown bytes become one unknown token
  bool ignore_merges = false;            ///< a word that is in the vocabulary is one token, whatever merges make of it
};

/// Byte-level byte pair encoding of one word (Sennrich et al., 2016; Radford et al., 2019): starts with bytes, and
/// joins the neighbours with the earliest merge, leftmost first, until no merge applies.
class BytePairModel {
 public:
  /// @param vocabulary  must outlive the model
  /// @throws Error  if a merge names a token that is not in the vocabulary or is given twice, if `unk_token` is not in
  /// the vocabulary, or if there are more than two million tokens or merges
  BytePairModel(const Vocabulary& vocabulary, const std::vector<Merge>& merges, const BytePairOptions& options);

  /// Appends the tokens of `word`, given as raw bytes. `space` is work space.
  void cut(std::string_view word, std::vector<WordPart>& parts, std::vector<std::uint64_t>& space) const;

  /// How many of the 256 bytes are not in the vocabulary.
  int missing_bytes() const;

 private:
  /// A pair of neighbours packed with its rank into one number, so that a slot is 8 bytes.
  static constexpr int kIdBits = 21;
  static constexpr int kRankBits = 22;
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  static std::uint64_t pack(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(left) << kIdBits) | static_cast<std::uint64_t>(right);
  }
  std::size_t home(std::uint64_t pair) const {
    return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> shift_);
  }

  void add(std::uint64_t pair, std::uint32_t rank, const Merge& merge);
  std::uint32_t rank_of(TokenId left, TokenId right) const;
  void start(std::string_view word, std::vector<WordPart>& parts) const;
  void merge_few(std::string_view word, std::vector<WordPart>& parts, std::size_t first) const;
  void merge_many(std::vector<WordPart>& parts, std::size_t first, std::vector<std::uint64_t>& space) const;

  std::array<TokenId, 256> byte_ids_;      // negative: not in the vocabulary
  std::vector<std::uint32_t> byte_ranks_;  // of pairs of bytes
  std::vector<std::uint64_t> slots_;       // pair << kRankBits | rank; all ones: empty
  std::vector<TokenId> merged_;            // by rank
  int shift_ = 0;
  TokenId unk_id_ = -1;
  bool fuse_unk_;
  const Vocabulary* whole_words_ = nullptr;  // with ignore_merges
};

/// Warns of bytes that would vanish from texts.
void warn_of_missing_bytes(const BytePairModel& model, const BytePairOptions& options);

}  // namespace lockstep::text
