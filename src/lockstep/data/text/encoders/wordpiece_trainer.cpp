#include "lockstep/data/text/encoders/wordpiece_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep {
namespace {

constexpr const char* kSpecialTokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::string_view kPrefix = "##";
/// Longer words are [UNK] with any vocabulary, so nothing can be learned from them.
constexpr std::size_t kLongestWordChars = 100;

/// A word as pieces, by their numbers.
struct Word {
  std::vector<std::int32_t> pieces;
  std::int64_t count;
};

std::uint64_t pack(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
}

/// A pair of neighbours, and how often it occurred when this entry was made.
struct Candidate {
  std::int64_t count;
  std::uint64_t pair;
  /// The most frequent first; among equals, the one that was known first.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

/// Joins pieces until the vocabulary is full.
class Joiner {
 public:
  Joiner(std::vector<std::string> tokens, std::vector<Word> words)
      : tokens_(std::move(tokens)), words_(std::move(words)) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) ids_[tokens_[i]] = static_cast<std::int32_t>(i);
    for (std::size_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) count(word.pieces[i], word.pieces[i + 1], word.count, w);
    }
    for (const auto& [pair, count] : counts_) queue_.push({count, pair});
  }

  std::vector<std::string> join(std::int64_t vocab_size, std::int64_t min_frequency) {
    while (static_cast<std::int64_t>(tokens_.size()) < vocab_size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t now = counts_[best.pair];
      if (now != best.count) {
        if (now > 0) queue_.push({now, best.pair});
        continue;
      }
      if (best.count < std::max<std::int64_t>(min_frequency, 1)) break;
      apply(static_cast<std::int32_t>(best.pair >> 32), static_cast<std::int32_t>(best.pair & 0xFFFFFFFFu));
    }
    return tokens_;
  }

 private:
  void count(std::int32_t left, std::int32_t right, std::int64_t by, std::size_t word) {
    const std::uint64_t pair = pack(left, right);
    counts_[pair] += by;
    if (by <= 0) return;
    std::vector<std::size_t>& places = places_[pair];
    if (places.empty() || places.back() != word) places.push_back(word);
  }

  std::int32_t joined(std::int32_t left, std::int32_t right) {
    const std::string token =
        tokens_[static_cast<std::size_t>(left)] + tokens_[static_cast<std::size_t>(right)].substr(kPrefix.size());
    const auto [found, added] = ids_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (added) tokens_.push_back(token);
    return found->second;
  }

  /// Makes one piece of `left` and `right` wherever they are neighbours.
  void apply(std::int32_t left, std::int32_t right) {
    const std::int32_t both = joined(left, right);
    const std::vector<std::size_t> places = std::move(places_[pack(left, right)]);
    std::vector<std::uint64_t> changed;
    for (const std::size_t w : places) {
      std::vector<std::int32_t>& pieces = words_[w].pieces;
      const std::int64_t count_of_word = words_[w].count;
      for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
        if (pieces[i] != left || pieces[i + 1] != right) continue;
        if (i > 0) {
          count(pieces[i - 1], left, -count_of_word, w);
          count(pieces[i - 1], both, count_of_word, w);
          changed.push_back(pack(pieces[i - 1], both));
        }
        if (i + 2 < pieces.size()) {
          count(right, pieces[i + 2], -count_of_word, w);
          count(both, pieces[i + 2], count_of_word, w);
          changed.push_back(pack(both, pieces[i + 2]));
        }
        pieces[i] = both;
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    counts_.erase(pack(left, right));
    places_.erase(pack(left, right));
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const std::uint64_t pair : changed) {
      if (counts_[pair] > 0) queue_.push({counts_[pair], pair});
    }
  }

  std::vector<std::string> tokens_;
  std::vector<Word> words_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::uint64_t, std::int64_t> counts_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> places_;
  std::priority_queue<Candidate> queue_;
};

/// The characters to keep, ascending: the most frequent ones, and the lower ones among equals.
std::vector<char32_t> alphabet_of(const std::map<std::string, std::int64_t>& counts, std::int64_t limit) {
  std::map<char32_t, std::int64_t> frequency;
  for (const auto& [word, count] : counts) {
    for (std::size_t at = 0; at < word.size();) frequency[text::decode_char(word.data(), &at)] += count;
  }
  std::vector<std::pair<std::int64_t, char32_t>> ranked;
  for (const auto& [c, count] : frequency) ranked.emplace_back(-count, c);
  std::sort(ranked.begin(), ranked.end());
  if (static_cast<std::int64_t>(ranked.size()) > limit) ranked.resize(static_cast<std::size_t>(limit));
  std::vector<char32_t> alphabet;
  for (const auto& [count, c] : ranked) alphabet.push_back(c);
  std::sort(alphabet.begin(), alphabet.end());
  return alphabet;
}

std::string utf8_of(char32_t c) {
  std::string bytes;
  text::append_utf8(c, bytes);
  return bytes;
}

}  // namespace

WordPieceTrainer::WordPieceTrainer(const WordPieceTrainerOptions& options)
    : options_(options), normalizer_(options.normalizer) {
  if (options.vocab_size < 0 || options.min_frequency < 0 || options.limit_alphabet < 0) {
    throw Error("vocab_size " + std::to_string(options.vocab_size) + ", min_frequency " +
                    std::to_string(options.min_frequency) + ", limit_alphabet " +
                    std::to_string(options.limit_alphabet),
                "WordPiece trainer", "give numbers from 0 on");
  }
}

void WordPieceTrainer::add(std::string_view text) {
  std::string replaced;
  if (!text::is_valid_utf8(text)) {
    replaced = text::replace_invalid_utf8(text);
    text = replaced;
  }
  text::NormalizedText normalized;
  normalizer_.normalize(text, 0, false, normalized);
  const std::string& bytes = normalized.bytes;
  const auto count = [&](std::size_t begin, std::size_t end) {
    const std::string_view word = std::string_view(bytes).substr(begin, end - begin);
    if (word.size() <= kLongestWordChars || text::count_chars(word) <= kLongestWordChars) ++counts_[std::string(word)];
  };
  std::size_t word_at = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t here = at;
    const text::WordClass kind = text::word_class(text::decode_char(bytes.data(), &at));
    if (kind == text::WordClass::Word) continue;
    if (word_at < here) count(word_at, here);
    if (kind == text::WordClass::Isolated) count(here, at);
    word_at = at;
  }
  if (word_at < bytes.size()) count(word_at, bytes.size());
}

std::vector<std::string> WordPieceTrainer::train() const {
  if (counts_.empty()) throw Error("the texts have no word to learn from", "WordPiece trainer", "give it text");
  const std::map<std::string, std::int64_t> counts(counts_.begin(), counts_.end());
  const std::vector<char32_t> alphabet = alphabet_of(counts, options_.limit_alphabet);

  // First characters, then characters that continue a word, if there are any.
  std::vector<std::string> tokens(std::begin(kSpecialTokens), std::end(kSpecialTokens));
  std::map<char32_t, std::int32_t> first, following;
  for (const char32_t c : alphabet) {
    first[c] = static_cast<std::int32_t>(tokens.size());
    tokens.push_back(utf8_of(c));
  }
  for (const auto& [word, count] : counts) {
    std::size_t at = 0;
    text::decode_char(word.data(), &at);
    while (at < word.size()) {
      const char32_t c = text::decode_char(word.data(), &at);
      if (first.count(c) != 0) following.emplace(c, 0);
    }
  }
  for (auto& [c, id] : following) {
    id = static_cast<std::int32_t>(tokens.size());
    tokens.push_back(std::string(kPrefix) + utf8_of(c));
  }
  if (static_cast<std::int64_t>(tokens.size()) > options_.vocab_size) {
    throw Error("vocab_size " + std::to_string(options_.vocab_size) + " is less than the " +
                    std::to_string(tokens.size()) + " special tokens and characters",
                "WordPiece trainer", "raise vocab_size, or lower limit_alphabet");
  }

  std::vector<Word> words;
  for (const auto& [word, count] : counts) {
    Word cut = {{}, count};
    for (std::size_t at = 0; at < word.size();) {
      const bool starts = at == 0;
      const char32_t c = text::decode_char(word.data(), &at);
      if (first.count(c) != 0) cut.pieces.push_back(starts ? first[c] : following[c]);
    }
    words.push_back(std::move(cut));
  }
  return Joiner(std::move(tokens), std::move(words)).join(options_.vocab_size, options_.min_frequency);
}

}  // namespace lockstep
