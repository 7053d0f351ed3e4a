#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/text/encoders/bert_encoder.h"

// What tests of encoders share.
namespace lockstep::text::encoder_tests {

inline Vocabulary vocabulary_of(const std::vector<std::string>& tokens) {
  std::vector<Vocabulary::Entry> entries;
  for (std::size_t i = 0; i < tokens.size(); ++i) entries.push_back({tokens[i], static_cast<TokenId>(i), "test"});
  return Vocabulary(std::move(entries));
}

inline std::vector<TokenId> ids_in(const EncoderScratch& scratch) {
  return {scratch.ids.data(), scratch.ids.data() + scratch.ids.size()};
}

/// Texts with words of all lengths and kinds at all places of a block.
inline std::string random_text(std::mt19937& generator, std::size_t pieces) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "b",
                                                   "c",
                                                   "ab",
                                                   "abc",
                                                   "cab",
                                                   "A",
                                                   "Bc",
                                                   " ",
                                                   "  ",
                                                   "\n",
                                                   "\t",
                                                   "\r\n",
                                                   ".",
                                                   ",",
                                                   "!?",
                                                   "'",
                                                   "'s",
                                                   "'t",
                                                   "'re",
                                                   "'ll",
                                                   "'x",
                                                   "1",
                                                   "23",
                                                   "_",
                                                   "\xC3\xA9",
                                                   "e\xCC\x81",
                                                   "\xE4\xB8\x80",
                                                   "\xE4\xBA\x8C",
                                                   "\xC2\xA0",
                                                   "\xE3\x80\x80",
                                                   "\xF0\x9F\x9A\xA2",
                                                   "\xD0\xB0\xD0\xB1",
                                                   "\xE2\x80\x99",
                                                   "\x01",
                                                   "\x7F",
                                                   std::string(1, '\0'),
                                                   "\x0B",
                                                   "\xE2\x80\x8B",
                                                   "\xED\x95\x9C",
                                                   "abcabcabcabcabcabc"};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += kPieces[generator() % kPieces.size()];
  return text;
}

}  // namespace lockstep::text::encoder_tests
