// Published vectors, and the tokenizers to which they belong.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "tests/data/text/small_tokenizers.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::string shared(const std::string& name) { return std::string(LOCKSTEP_SHARED_DATA) + "/" + name; }

/// One JSON value for each line of a file, plain or gzip.
std::vector<json> rows(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string content;
  char block[1 << 16];
  for (int got = 0; (got = gzread(file, block, sizeof(block))) > 0;)
    content.append(block, static_cast<std::size_t>(got));
  gzclose(file);
  std::vector<json> result;
  std::istringstream in(content);
  for (std::string line; std::getline(in, line);) result.push_back(json::parse(line));
  return result;
}

/// The reason to skip a test that needs these files: the first one that is missing; empty if all are there.
std::string missing(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!std::filesystem::exists(shared(name))) return "not here: " + shared(name);
  }
  return "";
}

class Golden : public ::testing::Test {
 protected:
  static Tokenizer bert(const std::string& name, bool lowercase) {
    BertTokenizerOptions options;
    options.do_lower_case = lowercase;
    return load_bert_vocabulary(shared("tokenizers/" + name + "/vocab.txt"), options);
  }
};

/// A vocabulary of these tokens, after the special ones if those are missing.
Tokenizer bert_with(std::vector<std::string> tokens, const json& row) {
  for (const char* special : {"[UNK]", "[CLS]", "[SEP]"}) {
    if (std::find(tokens.begin(), tokens.end(), special) == tokens.end()) tokens.push_back(special);
  }
  const SmallFolder folder;
  write_text(folder / "vocab.txt", lines(tokens));
  BertTokenizerOptions options;
  options.do_lower_case = row.value("lowercase", true);
  if (row.contains("strip_accents") && !row["strip_accents"].is_null())
    options.strip_accents = row["strip_accents"].get<bool>();
  if (row.contains("never_split")) options.never_split = row["never_split"].get<std::vector<std::string>>();
  return load_bert_vocabulary(folder / "vocab.txt", options);
}

TEST_F(Golden, SquadQuestions) {
  const std::string reason = missing({"tokenizers/bert-base-uncased", "golden/bert_uncased_squad_questions.jsonl.gz"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Tokenizer tokenizer = bert("bert-base-uncased", true);
  const auto all = rows(shared("golden/bert_uncased_squad_questions.jsonl.gz"));
  ASSERT_EQ(all.size(), 1000U);
  for (const json& row : all) {
    EXPECT_EQ(inner_ids(tokenizer, row["text"]), row["ids"].get<std::vector<TokenId>>()) << row["text"];
    EXPECT_EQ(inner_tokens(tokenizer, row["text"]), row["wordpiece"].get<std::vector<std::string>>());
  }
}

TEST_F(Golden, MixedScripts) {
  const std::string reason = missing({"tokenizers/bert-base-uncased", "golden/bert_uncased_mixed_scripts.jsonl"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Tokenizer tokenizer = load_tokenizer(shared("tokenizers/bert-base-uncased"));
  for (const json& row : rows(shared("golden/bert_uncased_mixed_scripts.jsonl"))) {
    EXPECT_EQ(inner_ids(tokenizer, row["text"]), row["ids"].get<std::vector<TokenId>>()) << row["text"];
  }
}

TEST_F(Golden, Pairs) {
  const std::string reason = missing({"tokenizers/bert-base-uncased", "golden/bert_uncased_pairs.jsonl"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Tokenizer tokenizer = load_tokenizer(shared("tokenizers/bert-base-uncased"));
  for (const json& row : rows(shared("golden/bert_uncased_pairs.jsonl"))) {
    const std::string first = row["text"], second = row["pair"];
    const Encoding encoding = tokenizer.encode_pair(first, second);
    EXPECT_EQ(encoding.ids, row["ids"].get<std::vector<TokenId>>());
    EXPECT_EQ(encoding.token_type_ids, row["token_type_ids"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(encoding.attention_mask, row["attention_mask"].get<std::vector<std::int32_t>>());
  }
}

TEST_F(Golden, Offsets) {
  const std::string reason = missing({"tokenizers/bert-base-uncased", "golden/bert_offsets.jsonl"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const json& row : rows(shared("golden/bert_offsets.jsonl"))) {
    const Tokenizer tokenizer = bert(row["vocab"], row["lowercase"]);
    EncodeOptions options;
    options.offsets = true;
    const Encoding encoding = tokenizer.encode(row["text"].get<std::string>(), options);
    EXPECT_EQ(encoding.ids, row["ids"].get<std::vector<TokenId>>());
    std::vector<std::vector<std::int32_t>> offsets;
    for (const CharSpan& span : encoding.offsets) offsets.push_back({span.begin, span.end});
    EXPECT_EQ(json(offsets), row["offsets"]);
  }
}

TEST_F(Golden, WordPieceCases) {
  const std::string reason = missing({"golden/bert_wordpiece_cases.jsonl"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  int checked = 0;
  for (const json& row : rows(shared("golden/bert_wordpiece_cases.jsonl"))) {
    ++checked;
    if (row["kind"] == "char_class") {
      const std::string bytes = row["char"];
      std::size_t at = 0;
      const char32_t c = text::decode_char(bytes.data(), &at);
      const bool got = row["class"] == "whitespace" ? text::is_white_space(c)
                       : row["class"] == "control"  ? text::is_bert_control(c)
                                                    : text::is_bert_punctuation(c);
      EXPECT_EQ(got, row["expected"].get<bool>()) << row;
      continue;
    }
    // If the case has no vocabulary of its own, its tokens form one.
    const std::vector<std::string> tokens = row["tokens"];
    std::vector<std::string> vocabulary = row.value("vocab", std::vector<std::string>());
    for (const std::string& token : tokens) {
      if (!row.contains("vocab") && std::find(vocabulary.begin(), vocabulary.end(), token) == vocabulary.end()) {
        vocabulary.push_back(token);
      }
    }
    const Tokenizer tokenizer = bert_with(vocabulary, row);
    EXPECT_EQ(inner_tokens(tokenizer, row["text"]), tokens) << row;
    if (row.contains("ids") && !row["ids"].is_null()) {
      EXPECT_EQ(inner_ids(tokenizer, row["text"]), row["ids"].get<std::vector<TokenId>>()) << row;
    }
  }
  EXPECT_EQ(checked, 47);
}

TEST_F(Golden, Gpt2Cases) {
  const std::string reason = missing({"tokenizers/gpt2", "golden/gpt2_bpe_cases.jsonl"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Tokenizer tokenizer = load_tokenizer(shared("tokenizers/gpt2"));
  const auto all = rows(shared("golden/gpt2_bpe_cases.jsonl"));
  ASSERT_EQ(all.size(), 44U);
  for (const json& row : all) {
    const std::string text = row["text"];
    EXPECT_EQ(inner_ids(tokenizer, text), row["ids"].get<std::vector<TokenId>>()) << row["text"];
    EXPECT_EQ(tokenizer.decode(row["ids"].get<std::vector<TokenId>>()), text);
    if (row.contains("tokens")) {
      EXPECT_EQ(inner_tokens(tokenizer, text), row["tokens"].get<std::vector<std::string>>());
    }
  }
}

TEST_F(Golden, Gpt2TinyVocabulary) {
  const std::string reason = missing({"golden/gpt2_bpe_tiny_vocab.jsonl"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const json& row : rows(shared("golden/gpt2_bpe_tiny_vocab.jsonl"))) {
    json model = {{"type", "BPE"}, {"unk_token", "<unk>"}, {"merges", row["merges"]}};
    const std::vector<std::string> tokens = row["vocab"];
    for (std::size_t i = 0; i < tokens.size(); ++i) model["vocab"][tokens[i]] = i;
    const json tokenizer_json = {
        {"model", model}, {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", row["add_prefix_space"]}}}};
    const SmallFolder folder;
    write_text(folder / "tokenizer.json", tokenizer_json.dump());
    const Tokenizer tokenizer = folder.load();
    EXPECT_EQ(inner_ids(tokenizer, row["text"]), row["ids"].get<std::vector<TokenId>>());
    EXPECT_EQ(inner_ids(tokenizer, "l#").back(), row["unk_id"].get<TokenId>());
  }
}

TEST_F(Golden, RobertaKnowsGpt2sPiecesByOtherNumbers) {
  const std::string reason = missing({"tokenizers/roberta-base", "tokenizers/gpt2", "golden/gpt2_bpe_cases.jsonl"});
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Tokenizer roberta = load_tokenizer(shared("tokenizers/roberta-base"));
  const Tokenizer gpt2 = load_tokenizer(shared("tokenizers/gpt2"));
  EXPECT_EQ(roberta.encode("Hello world").ids, (std::vector<TokenId>{0, 31414, 232, 2}));
  EXPECT_EQ(roberta.encode_pair("Hello", "world").ids, (std::vector<TokenId>{0, 31414, 2, 2, 8331, 2}));
  for (const json& row : rows(shared("golden/gpt2_bpe_cases.jsonl"))) {
    const std::string text = row["text"];
    if (text.find("<|endoftext|>") != std::string::npos) continue;
    EXPECT_EQ(inner_tokens(roberta, text), inner_tokens(gpt2, text)) << text;
  }
}

}  // namespace
}  // namespace lockstep
