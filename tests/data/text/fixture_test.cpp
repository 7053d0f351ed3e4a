// The results of Hugging Face's tokenizers, as recorded by make_fixture.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/data/text/files/tokenizer_document.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "tests/data/text/fixture_files.h"
#include "tests/data/text/small_tokenizers.h"

namespace lockstep {
namespace {

using nlohmann::json;

Tokenizer load_variant(const json& variant) {
  const TemporaryFolder folder;
  write_text(folder / "tokenizer.json", with_vocabulary(variant["tokenizer"], variant["vocabulary"]).dump());
  return load_tokenizer_json(folder / "tokenizer.json");
}

EncodeOptions options_of(const json& record) {
  EncodeOptions options;
  options.offsets = true;
  options.add_special_tokens = record.value("special", true);
  if (record.contains("max_length")) {
    options.truncation.emplace();
    options.truncation->max_length = record["max_length"];
    const std::string strategy = record["strategy"];
    options.truncation->strategy = strategy == "only_first"    ? TruncationStrategy::OnlyFirst
                                   : strategy == "only_second" ? TruncationStrategy::OnlySecond
                                                               : TruncationStrategy::LongestFirst;
    options.truncation->side = record["truncation_side"] == "left" ? SequenceSide::Left : SequenceSide::Right;
  }
  if (record.contains("pad_to")) {
    options.padding.emplace();
    options.padding->mode = PaddingMode::MaxLength;
    options.padding->max_length = record["pad_to"];
    options.padding->multiple_of = record["multiple_of"];
    options.padding->side = record["padding_side"] == "left" ? SequenceSide::Left : SequenceSide::Right;
  }
  return options;
}

template <typename T>
std::string joined(const std::vector<T>& values) {
  std::ostringstream out;
  for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : " ") << values[i];
  return out.str();
}

std::string joined(const std::vector<CharSpan>& spans) {
  std::ostringstream out;
  for (std::size_t i = 0; i < spans.size(); ++i) out << (i == 0 ? "" : " ") << spans[i].begin << "-" << spans[i].end;
  return out.str();
}

/// All values of one record as one text.
std::string describe(const Tokenizer& tokenizer, const std::vector<std::string>& texts, const json& record,
                     const EncodeOptions& options) {
  const std::string& text = texts[record["text"].get<std::size_t>()];
  Encoding encoding;
  try {
    encoding = record.contains("pair") ? tokenizer.encode_pair(text, texts[record["pair"].get<std::size_t>()], options)
                                       : tokenizer.encode(text, options);
  } catch (const Error&) {
    return "error";
  }
  DecodeOptions without_special;
  without_special.skip_special_tokens = true;
  return joined(encoding.ids) + "|" + joined(encoding.token_type_ids) + "|" + joined(encoding.attention_mask) + "|" +
         joined(encoding.special_tokens_mask) + "|" + joined(encoding.offsets) + "|" + tokenizer.decode(encoding.ids) +
         "|" + tokenizer.decode(encoding.ids, without_special);
}

std::string ids_only(const Tokenizer& tokenizer, const std::vector<std::string>& texts, const json& record,
                     EncodeOptions options) {
  options.offsets = false;
  const std::string all = describe(tokenizer, texts, record, options);
  return all.substr(0, all.find('|'));
}

class Variant : public ::testing::TestWithParam<int> {};

TEST_P(Variant, GivesTheSameAsHuggingFace) {
  const json variant = fixture_json("variants.json")[static_cast<std::size_t>(GetParam())];
  const std::vector<std::string> texts = fixture_json("texts.json");
  const json records = fixture_json("records.json");
  Tokenizer tokenizer = load_variant(variant);
  if (!tokenizer.pad_id()) tokenizer.set_pad_token("<pad>");

  std::ifstream in(fixture("expected.txt"));
  std::string line;
  for (int i = 0; i <= GetParam(); ++i) std::getline(in, line);
  std::istringstream expected(line);
  std::string name, want;
  expected >> name;
  ASSERT_EQ(name, variant["name"]);

  int checked = 0;
  for (const json& record : records) {
    ASSERT_TRUE(expected >> want);
    const EncodeOptions options = options_of(record);
    const std::string got = describe(tokenizer, texts, record, options);
    EXPECT_EQ(got == "error" ? got : hex(fnv(got)), want) << name << " " << record << "\n" << got;
    // Ids without offsets take another path through the encoder.
    EXPECT_EQ(ids_only(tokenizer, texts, record, options), got.substr(0, got.find('|'))) << name << " " << record;
    ++checked;
  }
  EXPECT_GT(checked, 300);
}

std::string variant_name(const ::testing::TestParamInfo<int>& info) {
  return fixture_json("variants.json")[static_cast<std::size_t>(info.param)]["name"];
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, Variant, ::testing::Range(0, 12), variant_name);

TEST(HuggingFaceUnicode, EveryCodePointIsClassifiedAlike) {
  using namespace text;
  std::ifstream in(fixture("unicode.txt"));
  for (char32_t first = 0; first < 0x110000; first += 0x1000) {
    std::string want;
    ASSERT_TRUE(std::getline(in, want));
    std::uint64_t hash = kHashStart;
    std::u32string parts, lower;
    for (char32_t c = first; c < first + 0x1000; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string line = is_white_space(c) ? "s\t" : is_bert_punctuation(c) ? "p\t" : "w\t";
      line += "LNSO"[static_cast<int>(pattern_class(c))];
      line += '\t';
      if (!is_bert_control(c)) append_utf8(is_white_space(c) ? ' ' : c, line);
      line += '\t';
      parts.clear();
      append_decomposition(c, parts);
      for (const char32_t part : parts) {
        if (!is_nonspacing_mark(part)) append_utf8(part, line);
      }
      line += '\t';
      lower.clear();
      append_lower_case(c, lower);
      for (const char32_t part : lower) append_utf8(part, line);
      line += is_bert_chinese(c) ? "\t " : "\t";
      append_utf8(c, line);
      line += is_bert_chinese(c) ? " \n" : "\n";
      hash = fnv(line, hash);
    }
    EXPECT_EQ(hex(hash), want) << "code points from " << static_cast<std::uint32_t>(first);
  }
}

}  // namespace
}  // namespace lockstep
