// The fast ways of byte-level BPE, compared with plain ones written here.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "lockstep/data/text/encoders/byte_level.h"
#include "lockstep/data/text/encoders/byte_level_encoder.h"
#include "lockstep/data/text/encoders/gpt2_pattern.h"
#include "tests/data/text/encoder_texts.h"

namespace lockstep::text {
namespace {

using encoder_tests::ids_in;
using encoder_tests::random_text;
using encoder_tests::vocabulary_of;
using Ids = std::vector<TokenId>;

std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    tokens.push_back(to_byte_level({&raw, 1}));
  }
  return tokens;
}

// Printable characters of Latin-1 stand for themselves, and the other bytes, in their order, are U+0100 and those after
// it.
TEST(ByteLevel, MapsEveryByteAsGpt2Does) {
  const std::vector<std::pair<int, char32_t>> by_hand = {{0x00, 0x100}, {0x20, 0x120}, {0x21, 0x21},  {0x7E, 0x7E},
                                                         {0x7F, 0x121}, {0x80, 0x122}, {0xA0, 0x142}, {0xA1, 0xA1},
                                                         {0xAC, 0xAC},  {0xAD, 0x143}, {0xAE, 0xAE},  {0xFF, 0xFF}};
  for (const auto& [byte, character] : by_hand) {
    EXPECT_EQ(byte_to_char(static_cast<unsigned char>(byte)), character) << byte;
  }
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(char_to_byte(byte_to_char(static_cast<unsigned char>(byte))), byte);
  }
}

/// A vocabulary of all bytes, and of merges drawn at random.
struct RandomModel {
  std::vector<std::string> tokens = byte_tokens();
  std::vector<Merge> merges;

  explicit RandomModel(unsigned seed, int count) {
    std::mt19937 generator(seed);
    const std::vector<std::string> sample = {
        "a", "b", "c", "a", "b", to_byte_level(" "), to_byte_level("\xC3"), to_byte_level("\xA9"), "1", "'", "s"};
    std::vector<std::string> parts = sample;
    while (static_cast<int>(merges.size()) < count) {
      const std::string left = parts[generator() % parts.size()], right = parts[generator() % parts.size()];
      const auto same = [&](const Merge& m) { return m.left == left && m.right == right; };
      if (std::any_of(merges.begin(), merges.end(), same) || (left + right).size() > 12) continue;
      merges.push_back({left, right, "test"});
      if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) tokens.push_back(left + right);
      parts.push_back(left + right);
    }
  }

  /// Merges by definition: as long as a merge applies, the earliest merge, leftmost first.
  Ids cut(const std::string& word) const {
    std::vector<std::string> parts;
    for (const char byte : word) parts.push_back(to_byte_level({&byte, 1}));
    for (;;) {
      std::size_t best_rank = merges.size(), best_at = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        for (std::size_t rank = 0; rank < best_rank; ++rank) {
          if (merges[rank].left != parts[i] || merges[rank].right != parts[i + 1]) continue;
          best_rank = rank;
          best_at = i;
        }
      }
      if (best_rank == merges.size()) break;
      parts[best_at] += parts[best_at + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    }
    Ids ids;
    for (const std::string& part : parts) {
      ids.push_back(static_cast<TokenId>(std::find(tokens.begin(), tokens.end(), part) - tokens.begin()));
    }
    return ids;
  }
};

TEST(BytePairModel, MergesByTheBook) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const RandomModel random(seed, 60);
    const Vocabulary vocabulary = vocabulary_of(random.tokens);
    const BytePairModel model(vocabulary, random.merges, {});
    EXPECT_EQ(model.missing_bytes(), 0);
    std::mt19937 generator(seed);
    std::vector<WordPart> parts;
    std::vector<std::uint64_t> space;
    // From one byte to lengths that a heap merges.
    for (const std::size_t length : {1, 2, 3, 5, 8, 17, 40, 96, 97, 150, 400}) {
      std::string word;
      while (word.size() < length)
        word +=
            "abcab \xC3\xA9"
            "1's"[generator() % 10];
      parts.clear();
      model.cut(word, parts, space);
      Ids got;
      std::uint32_t end = 0;
      for (const WordPart& part : parts) {
        got.push_back(part.id);
        EXPECT_EQ(part.begin, end);
        end = part.end;
      }
      EXPECT_EQ(end, word.size());
      EXPECT_EQ(got, random.cut(word)) << seed << " " << testing::PrintToString(word);
    }
  }
}

TEST(BytePairModel, UnknownBytes) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "ab", "<unk>"});
  const std::vector<Merge> merges = {{"a", "b", "test"}};
  const auto cut = [&](const BytePairOptions& options, const std::string& word) {
    std::vector<WordPart> parts;
    std::vector<std::uint64_t> space;
    BytePairModel(vocabulary, merges, options).cut(word, parts, space);
    Ids ids;
    for (const WordPart& part : parts) ids.push_back(part.id);
    return ids;
  };
  EXPECT_EQ(cut({}, "abxxa"), (Ids{2, 0}));  // they are dropped
  EXPECT_EQ(cut({"<unk>", false}, "abxxa"), (Ids{2, 3, 3, 0}));
  EXPECT_EQ(cut({"<unk>", true}, "abxxa"), (Ids{2, 3, 0}));
}

class ByteLevelPrefix : public ::testing::TestWithParam<bool> {};

TEST_P(ByteLevelPrefix, FastWayIsWordByWord) {
  const RandomModel random(3, 80);
  const Vocabulary vocabulary = vocabulary_of(random.tokens);
  const BytePairModel model(vocabulary, random.merges, {});
  const auto encoder = make_byte_level_encoder(vocabulary, random.merges, {}, {GetParam()});
  EncoderScratch scratch;
  std::mt19937 generator(11);
  for (int i = 0; i < 1500; ++i) {
    const std::string text = random_text(generator, generator() % 60);
    const std::string taken = GetParam() && !text.empty() && text[0] != ' ' ? " " + text : text;
    std::vector<WordPart> parts;
    std::vector<std::uint64_t> space;
    for (std::size_t at = 0; at < taken.size();) {
      const std::size_t end = gpt2_word_end(taken, at);
      ASSERT_GT(end, at);
      model.cut(std::string_view(taken).substr(at, end - at), parts, space);
      at = end;
    }
    Ids want;
    for (const WordPart& part : parts) want.push_back(part.id);
    scratch.ids.clear();
    encoder->encode(text, scratch);
    ASSERT_EQ(ids_in(scratch), want) << testing::PrintToString(text);
    scratch.ids.clear();
    scratch.spans.clear();
    encoder->encode_with_spans(text, 0, scratch);
    ASSERT_EQ(ids_in(scratch), want) << testing::PrintToString(text);
    ASSERT_EQ(scratch.spans.size(), want.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ByteLevelPrefix, ::testing::Bool());

struct PatternCase {
  const char* name;
  std::string text;
  std::vector<std::string> want;  // as Python's regex finds them
};

class Gpt2Pattern : public ::testing::TestWithParam<PatternCase> {};

TEST_P(Gpt2Pattern, CutsWords) {
  const std::string& text = GetParam().text;
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size(); at += words.back().size()) {
    words.push_back(text.substr(at, gpt2_word_end(text, at) - at));
  }
  EXPECT_EQ(words, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Gpt2Pattern,
    ::testing::Values(PatternCase{"words", "Hello world", {"Hello", " world"}},
                      PatternCase{"contractions", "don't we'll 'S", {"don", "'t", " we", "'ll", " '", "S"}},
                      PatternCase{"contraction_then_word", "'tis", {"'t", "is"}},
                      PatternCase{"two_apostrophes", "''s", {"''", "s"}},
                      PatternCase{"numbers", "a1b 23", {"a", "1", "b", " 23"}},
                      PatternCase{"spaces_before_word", "a   b", {"a", "  ", " b"}},
                      PatternCase{"line_end_before_word", "a\n b\nc", {"a", "\n", " b", "\n", "c"}},
                      PatternCase{"spaces_at_end", "a  \n ", {"a", "  \n "}},
                      PatternCase{"punctuation", "x!? (y)", {"x", "!?", " (", "y", ")"}},
                      PatternCase{"no_break_space",
                                  "a\xC2\xA0"
                                  "b",
                                  {"a", "\xC2\xA0", "b"}},
                      PatternCase{"marks_are_no_letters", "e\xCC\x81x", {"e", "\xCC\x81", "x"}}),
    [](const auto& test) { return test.param.name; });

TEST(WordCache, ForgetsNothingItShouldKnow) {
  WordCache cache;
  // Many more words than entries, of all lengths; those that are found must be correct.
  std::mt19937 generator(1);
  std::map<std::string, Ids> truth;
  for (int i = 0; i < 60000; ++i) {
    std::string word(1 + generator() % 40, 'a');
    for (char& c : word) c = static_cast<char>('a' + generator() % 4);
    Ids ids(generator() % 9);
    for (TokenId& id : ids) id = static_cast<TokenId>(generator() % 50000);
    ids = truth.emplace(word, ids).first->second;
    if (word.size() > WordCache::kShortBytes) {
      cache.put_long(word, ids.data(), static_cast<std::uint32_t>(ids.size()));
      const WordCache::Ids found = cache.find_long(word);
      EXPECT_EQ(Ids(found.data, found.data + found.count), ids);
      continue;
    }
    char padded[16] = {};
    std::copy(word.begin(), word.end(), padded);
    const auto key = WordCache::load_key(padded, static_cast<std::uint32_t>(word.size()));
    cache.put(key, ids.data(), static_cast<std::uint32_t>(ids.size()));
    const WordCache::ShortEntry& entry = cache.slot(key);
    ASSERT_TRUE(entry.holds(key));
    const TokenId* data = entry.is_inline() ? entry.ids : cache.arena_ids(entry);
    EXPECT_EQ(Ids(data, data + entry.count()), ids);
  }
  for (const auto& [word, ids] : truth) {
    if (word.size() > WordCache::kShortBytes) continue;
    char padded[16];
    std::fill(std::begin(padded), std::end(padded), 'x');  // the bytes after a word do not matter
    std::copy(word.begin(), word.end(), padded);
    const auto key = WordCache::load_key(padded, static_cast<std::uint32_t>(word.size()));
    const WordCache::ShortEntry& entry = cache.slot(key);
    if (!entry.holds(key)) continue;
    const TokenId* data = entry.is_inline() ? entry.ids : cache.arena_ids(entry);
    EXPECT_EQ(Ids(data, data + entry.count()), ids) << word;
  }
}

}  // namespace
}  // namespace lockstep::text
