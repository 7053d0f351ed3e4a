// Byte-level BPE that cuts texts by patterns of its own, as Llama 3, Qwen and SmolLM do; see make_splits.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/text/files/splitter_json.h"
#include "lockstep/data/text/patterns/text_splitter.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text/unicode/nfc_normalizer.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "tests/data/text/fixture_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"
#include "tests/support/write_lines.h"

namespace lockstep::text {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

TextSplitter splitter_of(const std::string& pattern, bool drops_rest = false) {
  TextSplitter splitter;
  splitter.add_pattern(std::make_shared<const SplitPattern>(pattern, "here"), drops_rest);
  return splitter;
}

Words words_of(const TextSplitter& splitter, const std::string& text) {
  Words words;
  splitter.split(text, [&](std::size_t begin, std::size_t end) { words.push_back(text.substr(begin, end - begin)); });
  return words;
}

struct CutCase {
  const char* name;
  const char* pattern;
  const char* text;
  Words want;
};

class SplitPatterns : public ::testing::TestWithParam<CutCase> {};

TEST_P(SplitPatterns, CutAsTheirWordsSay) {
  EXPECT_EQ(words_of(splitter_of(GetParam().pattern), GetParam().text), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Table, SplitPatterns,
    ::testing::Values(CutCase{"the_first_alternative_wins", "ab|a|abc", "abcab", {"ab", "c", "ab"}},
                      CutCase{"what_lies_between_is_a_piece", "\\d+", "a12b3", {"a", "12", "b", "3"}},
                      CutCase{"takes_as_many_as_it_can", "\\p{N}{1,3}", "12345", {"123", "45"}},
                      CutCase{"gives_back", "a*ab", "aaab", {"aaab"}},
                      CutCase{"possessive_gives_nothing_back", "a*+ab", "aaab", {"aaab"}},
                      CutCase{"optional_character", "[^x]?b", "abxb", {"ab", "x", "b"}},
                      CutCase{"looks_ahead", "\\s+(?!\\S)|\\s+", "a   b", {"a", "  ", " ", "b"}},
                      CutCase{"must_follow", "a(?=b)", "abac", {"a", "bac"}},
                      CutCase{"any_case", "'(?:(?i:s|LL))", "'S'll'\xC5\xBF", {"'S", "'ll", "'\xC5\xBF"}},
                      CutCase{"optional_group", "a(?:bc)?", "abcab", {"abc", "a", "b"}},
                      CutCase{"groups_inside_groups", "(?:a(?:b|c)|d)e", "abedee", {"abe", "de", "e"}},
                      CutCase{"range_and_dash", "[a-c-]+", "a-cd-", {"a-c", "d", "-"}},
                      CutCase{"not_a_category", "\\P{L}+", "ab12", {"ab", "12"}},
                      CutCase{"any_but_a_line_end", ".+", "ab\ncd", {"ab", "\n", "cd"}},
                      CutCase{"nothing_is_no_match", "a*", "baab", {"b", "aa", "b"}},
                      CutCase{"escapes", "\\.\\+|\\[", "a.+[", {"a", ".+", "["}}),
    [](const auto& test) { return test.param.name; });

TEST(SplitPatterns, LeaveOutWhatDoesNotMatchIfToldTo) {
  EXPECT_EQ(words_of(splitter_of("[a-z]+", true), "ab 1 cd"), (Words{"ab", "cd"}));
}

TEST(SplitPatterns, OneCutsThePiecesOfTheOneBefore) {
  TextSplitter splitter = splitter_of("\\p{N}");
  splitter.add_gpt2();
  EXPECT_EQ(words_of(splitter, "it's 12!"), (Words{"it", "'s", " ", "1", "2", "!"}));
}

TEST(SplitPatterns, AreRefusedByNameIfTheyHaveMore) {
  for (const auto& [pattern, says] : {std::pair("a$", "\"$\""),
                                      {"(a)+", "\"+\" after a group"},
                                      {"a+?", "as few as it can"},
                                      {"(?<=a)b", "the group \"(?<="},
                                      {"\\bword", "\"\\b\""},
                                      {"\\p{Greek}", "the category \"Greek\""},
                                      {"[a[b]]", "a class inside a class"},
                                      {"[a&&b]", "\"&&\""},
                                      {"a{2}+", "\"}+\""},
                                      {"(a", "a bracket is not closed"},
                                      {"a)", "a bracket too many"},
                                      {"[a", "is not closed"},
                                      {"*a", "nothing stands before a repetition"},
                                      {"a{3,2}", "the bounds"},
                                      {"[b-a]", "a range ends"},
                                      {"(?i:\\p{Lu})", "in any case"}}) {
    try {
      SplitPattern(pattern, "tokenizer.json: pre_tokenizer.pattern");
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find(says), std::string::npos) << error.what();
      EXPECT_EQ(error.where(), "tokenizer.json: pre_tokenizer.pattern");
    }
  }
}

std::vector<json> split_variants() { return fixture_json("splits.json").at("variants").get<std::vector<json>>(); }

std::string said_of(const Tokenizer& tokenizer, const std::string& text) {
  EncodeOptions options;
  options.offsets = true;
  const Encoding encoding = tokenizer.encode(text, options);
  EXPECT_EQ(tokenizer.encode(text).ids, encoding.ids);
  std::string ids, offsets;
  for (const TokenId id : encoding.ids) ids += (ids.empty() ? "" : " ") + std::to_string(id);
  for (const CharSpan& span : encoding.offsets) {
    offsets += (offsets.empty() ? "" : " ") + std::to_string(span.begin) + "-" + std::to_string(span.end);
  }
  return ids + "|" + offsets + "|" + tokenizer.decode(encoding.ids);
}

// Ids, offsets and the way back, of texts in many scripts; and the same when the tokenizer was saved and read again.
TEST(SplitTokenizers, GiveHuggingFacesIdsAndOffsets) {
  const auto texts = fixture_json("splits.json").at("texts").get<std::vector<std::string>>();
  for (const json& variant : split_variants()) {
    json declared = with_vocabulary(variant.at("tokenizer"), "bpe");
    if (declared.contains("more_vocabulary")) declared["model"]["vocab"].update(declared["more_vocabulary"]);
    declared.erase("more_vocabulary");
    const TemporaryFolder folder;
    write_lines(folder / "tokenizer.json", declared.dump());
    Tokenizer tokenizer = load_tokenizer(folder.path());
    for (const bool is_saved : {false, true}) {
      if (is_saved) {
        tokenizer.save(folder / "saved");
        tokenizer = load_tokenizer(folder / "saved");
      }
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::string said = said_of(tokenizer, texts[i]);
        EXPECT_EQ(hex(fnv(said)), variant.at("expected").at(i)) << variant.at("name") << " " << texts[i] << "\n"
                                                                << said;
      }
    }
  }
}

std::vector<TextSplitter> recorded_splitters() {
  std::vector<TextSplitter> splitters;
  const auto pattern_of = [](const json& variant, std::size_t step) {
    return variant.at("tokenizer").at("pre_tokenizer").at("pretokenizers").at(step).at("pattern").at("Regex");
  };
  for (const auto& [name, step] : {std::pair("llama3", 0), {"tekken", 0}, {"deepseek", 2}}) {
    for (const json& variant : split_variants()) {
      if (variant.at("name") == name) splitters.push_back(splitter_of(pattern_of(variant, step)));
    }
  }
  splitters.push_back(splitter_of(kDigitPattern));
  return splitters;
}

// Where each pattern cuts around each code point, and what NFC makes of it. In the suite, the first 0x20000 code
// points.
TEST(SplitTokenizers, KnowEveryCodePointAsHuggingFaces) {
  const std::vector<TextSplitter> splitters = recorded_splitters();
  std::ifstream in(fixture("splits_unicode.txt"));
  int blocks = 0;
  for (std::string line; std::getline(in, line) && blocks < test_size(0x12, 0x110); ++blocks) {
    std::istringstream fields(line);
    char32_t first = 0;
    std::uint32_t code = 0;
    fields >> std::hex >> code;
    first = code;
    std::vector<std::uint64_t> hashes(splitters.size() + 1, kHashStart);
    for (char32_t c = first; c < first + 0x1000; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string character;
      append_utf8(c, character);
      const std::string text = "a" + character + "b " + character + character + " 1" + character + " '" + character;
      for (std::size_t i = 0; i < splitters.size(); ++i) {
        std::uint32_t ends = 0;
        splitters[i].split(text, [&](std::size_t, std::size_t end) { ends |= 1U << count_chars(text.substr(0, end)); });
        std::string mask;
        append_utf8(ends & 0x7F, mask);
        append_utf8(ends >> 7, mask);
        hashes[i] = fnv(mask, hashes[i]);
      }
      const std::string normal = normalize_nfc(text, 0, nullptr);
      if (is_surely_nfc(text)) {
        EXPECT_EQ(normal, text);
      }
      if (normal != text) hashes.back() = fnv(normal, hashes.back());
    }
    for (const std::uint64_t hash : hashes) {
      std::string want;
      fields >> want;
      EXPECT_EQ(hex(hash), want) << "code points from " << code;
    }
  }
  EXPECT_GE(blocks, 0x12);
}

}  // namespace
}  // namespace lockstep::text
