// The fast way of BERT's encoder, compared with a plain one written here.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "lockstep/data/text/encoders/bert_encoder.h"
#include "lockstep/data/text/encoders/wordpiece.h"
#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "tests/data/text/encoder_texts.h"

namespace lockstep::text {
namespace {

using encoder_tests::ids_in;
using encoder_tests::random_text;
using encoder_tests::vocabulary_of;
using Ids = std::vector<TokenId>;

const std::vector<std::string>& bert_tokens() {
  static const std::vector<std::string> tokens = {"[UNK]",
                                                  "a",
                                                  "b",
                                                  "c",
                                                  "ab",
                                                  "##a",
                                                  "##b",
                                                  "##c",
                                                  "##ab",
                                                  "##bc",
                                                  "cab",
                                                  "e",
                                                  "##e",
                                                  ".",
                                                  ",",
                                                  "!",
                                                  "?",
                                                  "'",
                                                  "s",
                                                  "##s",
                                                  "1",
                                                  "23",
                                                  "##2",
                                                  "_",
                                                  "\xE4\xB8\x80",
                                                  "\xD0\xB0",
                                                  "##\xD0\xB1",
                                                  "A",
                                                  "##B",
                                                  "\xE1\x84\x92",
                                                  "##\xE1\x85\xA1",
                                                  "##1",
                                                  "##l",
                                                  "x",
                                                  "##x",
                                                  "t",
                                                  "##t",
                                                  "r",
                                                  "l"};
  return tokens;
}

/// The ids of `text` by definition: clean, space out, decompose, strip, lower, split at spaces and punctuation, then
/// take the longest piece repeatedly.
Ids bert_by_the_book(const std::string& text, const BertNormalizerOptions& options) {
  std::u32string cleaned, stripped, lowered;
  for (std::size_t at = 0; at < text.size();) {
    char32_t c = decode_char(text.data(), &at);
    if (options.clean_text && is_bert_control(c)) continue;
    if (options.clean_text && is_white_space(c)) c = ' ';
    const bool chinese = options.handle_chinese_chars && is_bert_chinese(c);
    if (chinese) cleaned += U' ';
    cleaned += c;
    if (chinese) cleaned += U' ';
  }
  for (const char32_t c : cleaned) {
    if (!options.strip_accents.value_or(options.lowercase)) {
      stripped += c;
      continue;
    }
    std::u32string parts;
    append_decomposition(c, parts);
    for (const char32_t part : parts) {
      if (!is_nonspacing_mark(part)) stripped += part;
    }
  }
  for (const char32_t c : stripped) options.lowercase ? append_lower_case(c, lowered) : lowered.push_back(c);

  std::vector<std::u32string> words(1);
  for (const char32_t c : lowered) {
    if (is_white_space(c)) {
      words.emplace_back();
    } else if (is_bert_punctuation(c)) {
      words.push_back({c});
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  std::map<std::string, TokenId> vocabulary;
  for (std::size_t i = 0; i < bert_tokens().size(); ++i) vocabulary[bert_tokens()[i]] = static_cast<TokenId>(i);
  Ids ids;
  for (const std::u32string& word : words) {
    Ids pieces;
    for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      for (end = word.size(); end > begin; --end) {
        std::string piece = begin > 0 ? "##" : "";
        for (std::size_t i = begin; i < end; ++i) append_utf8(word[i], piece);
        if (vocabulary.count(piece) != 0) {
          pieces.push_back(vocabulary[piece]);
          break;
        }
      }
      if (end == begin || word.size() > 100) {
        pieces = {0};
        break;
      }
    }
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }
  return ids;
}

class BertEncoderOptions : public ::testing::TestWithParam<int> {};

TEST(WordPiece, CountsTheCharactersOfAWordAndNotItsBytes) {
  const Vocabulary vocabulary = vocabulary_of({"[UNK]", "\xC3\xA9", "##\xC3\xA9"});
  const WordPiece model(vocabulary, {});
  const auto parts_of = [&](int characters) {
    std::string word;
    for (int i = 0; i < characters; ++i) word += "\xC3\xA9";
    std::vector<WordPart> parts;
    model.cut(word, parts);
    return parts.size();
  };
  EXPECT_EQ(parts_of(100), 100U);
  EXPECT_EQ(parts_of(101), 1U);  // unknown
}

TEST_P(BertEncoderOptions, FastWayIsTheBook) {
  BertNormalizerOptions options;
  options.clean_text = (GetParam() & 1) != 0;
  options.handle_chinese_chars = (GetParam() & 2) != 0;
  options.lowercase = (GetParam() & 4) != 0;
  if ((GetParam() & 8) != 0) options.strip_accents = !options.lowercase;
  const Vocabulary vocabulary = vocabulary_of(bert_tokens());
  const auto encoder = make_bert_encoder(vocabulary, {}, options);
  EncoderScratch scratch;
  std::mt19937 generator(static_cast<unsigned>(GetParam()));
  for (int i = 0; i < 600; ++i) {
    const std::string text = random_text(generator, generator() % 60);
    const Ids want = bert_by_the_book(text, options);
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

INSTANTIATE_TEST_SUITE_P(AllSwitches, BertEncoderOptions, ::testing::Range(0, 16));

}  // namespace
}  // namespace lockstep::text
