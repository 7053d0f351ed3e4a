// Loading tokenizers from files, and errors in files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/text/tokenizer.h"
#include "tests/data/text/small_tokenizers.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

std::string vocab_json(const std::vector<std::string>& tokens) {
  json vocabulary = json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = i;
  return vocabulary.dump();
}

const std::vector<std::string> kBpeTokens = {"<s>", "<pad>", "</s>", "<unk>", "<mask>", "h",
                                             "i",   "Ġ",     "hi",   "Ġhi",   "!"};
const char* const kMerges = "#version: 0.2\nh i\nĠ hi\n";

json bert_json() {
  json vocabulary = json::object();
  for (std::size_t i = 0; i < small_bert_tokens().size(); ++i) vocabulary[small_bert_tokens()[i]] = i;
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"model", {{"type", "WordPiece"}, {"vocab", vocabulary}}}};
}

TEST(Load, BertHonoursItsConfiguration) {
  SmallFolder folder;
  folder.put("vocab.txt", lines(small_bert_tokens()));
  EXPECT_EQ(inner_ids(folder.load(), "Boat boat"), (Ids{6, 6}));
  folder.put("tokenizer_config.json",
             R"({"do_lower_case": false, "tokenizer_class": "BertTokenizerFast", "model_max_length": 128})");
  EXPECT_EQ(inner_ids(folder.load(), "Boat boat"), (Ids{23, 6}));
  EXPECT_EQ(folder.load().model_max_length(), 128);
  folder.put("tokenizer_config.json",
             R"({"mask_token": {"content": "don", "lstrip": false}, "model_max_length": 1e30})");
  EXPECT_EQ(folder.load().mask_id(), 20);
  EXPECT_EQ(folder.load().model_max_length(), std::nullopt);
}

TEST(Load, ALengthThatWasSetIsSavedAndLoaded) {
  SmallFolder folder;
  folder.put("vocab.txt", lines(small_bert_tokens()));
  Tokenizer tokenizer = folder.load();
  EXPECT_EQ(tokenizer.model_max_length(), std::nullopt);
  tokenizer.set_model_max_length(24);
  const TemporaryFolder saved;
  tokenizer.save(saved.path());
  EXPECT_EQ(json::parse(read_file(saved / "tokenizer_config.json")).at("model_max_length"), 24);
  EXPECT_EQ(load_tokenizer(saved.path()).model_max_length(), 24);
  EXPECT_THROW(tokenizer.set_model_max_length(0), Error);
}

TEST(Load, LineEndsOfWindowsAndAMissingLastOne) {
  SmallFolder folder;
  folder.put("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\nboat");
  EXPECT_EQ(folder.load().encode("boat").ids, (Ids{2, 4, 3}));
}

// As transformers 5.23 does: AutoTokenizer gives the three tokens of "don't" with this file and without it.
TEST(Load, NeverSplitOfAFolderIsPassedOverWithAWarning) {
  SmallFolder folder;
  folder.put("vocab.txt", lines(small_bert_tokens())).put("tokenizer_config.json", R"({"never_split": ["don't"]})");
  testing::internal::CaptureStderr();
  const Tokenizer tokenizer = folder.load();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(inner_ids(tokenizer, "don't"), (Ids{20, 21, 22}));
  EXPECT_NE(said.find("tokenizer_config.json.never_split: ignored"), std::string::npos) << said;
  folder.put("tokenizer_config.json", R"({"never_split": null, "do_basic_tokenize": true, "do_lower_case": true})");
  testing::internal::CaptureStderr();
  folder.load();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Load, ByteLevelFilesUnderBothNames) {
  for (const bool old_names : {false, true}) {
    SmallFolder folder;
    folder.put(old_names ? "encoder.json" : "vocab.json", vocab_json(kBpeTokens));
    folder.put(old_names ? "vocab.bpe" : "merges.txt", kMerges);
    const Tokenizer tokenizer = folder.load();  // <s> and no <|endoftext|>, so RoBERTa's
    EXPECT_EQ(tokenizer.encode("hi hi").ids, (Ids{0, 8, 9, 2}));
    EXPECT_EQ(tokenizer.encode_pair("hi", "hi").ids, (Ids{0, 8, 2, 2, 8, 2}));
    EXPECT_EQ(inner_ids(tokenizer, "hi <mask>"), (Ids{8, 4}));  // the mask takes the blank
    EXPECT_EQ(tokenizer.decode({8, 9, 10}), "hi hi!");
    folder.put("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})");
    EXPECT_EQ(folder.load().encode("hi hi").ids, (Ids{9, 9}));
  }
}

TEST(Load, AddedTokensOfAllFiles) {
  SmallFolder folder;
  folder.put("vocab.txt", lines(small_bert_tokens()))
      .put("added_tokens.json", R"({"<new>": 24})")
      .put("tokenizer_config.json",
           R"({"added_tokens_decoder": {"25": {"content": "<more>", "special": true, "normalized": false}}})");
  const Tokenizer tokenizer = folder.load();
  EXPECT_EQ(inner_ids(tokenizer, "the<new> <more>boat"), (Ids{5, 24, 25, 6}));
  EXPECT_EQ(tokenizer.vocab_size(), 26);
  DecodeOptions options;
  options.skip_special_tokens = true;
  EXPECT_EQ(tokenizer.decode({5, 24, 25}, options), "the <new>");
}

TEST(Load, TokenizerJsonDeclaresDefaults) {
  json declared = bert_json();
  declared["truncation"] = {{"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Left"}};
  declared["padding"] = {
      {"strategy", {{"Fixed", 4}}}, {"direction", "Left"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 0},
      {"pad_type_id", 1},           {"pad_token", "[PAD]"}};
  SmallFolder folder;
  folder.put("tokenizer.json", declared.dump());
  const Encoding encoding = folder.load().encode("the boat is here");
  EXPECT_EQ(encoding.ids, (Ids{0, 0, 8, 10}));
  EXPECT_EQ(encoding.token_type_ids, (std::vector<std::int32_t>{1, 1, 0, 0}));
  // tokenizer_config.json takes precedence.
  folder.put("tokenizer_config.json", R"({"do_lower_case": false, "padding_side": "right"})");
  EXPECT_EQ(folder.load().encode("Boat").ids, (Ids{23, 0, 0, 0}));
}

TEST(Save, WritesWhatLoadsAgain) {
  for (const bool word_piece : {true, false}) {
    SmallFolder folder;
    if (word_piece) {
      folder.put("vocab.txt", lines(small_bert_tokens()));
      folder.put("tokenizer_config.json",
                 R"({"do_lower_case": false, "lockstep_never_split": ["don't"], "model_max_length": 64})");
    } else {
      folder.put("vocab.json", vocab_json(kBpeTokens)).put("merges.txt", kMerges);
    }
    const Tokenizer original = folder.load();
    const TemporaryFolder saved;
    original.save(saved / "all");
    const Tokenizer again = load_tokenizer(saved / "all");
    for (const char* text : {"the Boats don't [MASK] don't!", "hi hi <mask> ih", ""}) {
      EXPECT_EQ(again.encode(text).ids, original.encode(text).ids) << text;
      EXPECT_EQ(again.decode(again.encode(text).ids), original.decode(original.encode(text).ids));
    }
    EXPECT_EQ(again.model_max_length(), original.model_max_length());
    // The vocabulary files alone give an equal tokenizer.
    std::filesystem::remove(saved / "all/tokenizer.json");
    const Tokenizer from_files = load_tokenizer(saved / "all");
    EXPECT_EQ(from_files.encode("the Boats don't [MASK] hi <mask>").ids,
              original.encode("the Boats don't [MASK] hi <mask>").ids);
    original.save(saved / "all");  // overwrites the existing files
    for (const auto& [name, content] : original.files()) EXPECT_EQ(read_file(saved / ("all/" + name)), content) << name;
    EXPECT_EQ(read_file(saved / "all/tokenizer_config.json").empty(), false);
  }
}

struct BadFile {
  const char* name;
  std::vector<std::pair<std::string, std::string>> files;
  const char* want;
};

class BadFiles : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreErrorsThatNameThePlace) {
  SmallFolder folder;
  for (const auto& [name, content] : GetParam().files) folder.put(name, content);
  expect_error(GetParam().want, [&] { folder.load(); });
}

const std::string kGoodTxt = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";

INSTANTIATE_TEST_SUITE_P(
    Vocabularies, BadFiles,
    ::testing::Values(
        BadFile{"nothing", {}, "there is no tokenizer"},
        BadFile{"empty_txt", {{"vocab.txt", ""}}, "the vocabulary has no token"},
        BadFile{"twice_in_txt", {{"vocab.txt", kGoodTxt + "boat\nthe\nboat\n"}}, "vocab.txt:7"},
        BadFile{"invalid_bytes", {{"vocab.txt", kGoodTxt + "b\xFFt\n"}}, "vocab.txt:5"},
        BadFile{"nul", {{"vocab.txt", kGoodTxt + std::string("b\0t\n", 4)}}, "contains a NUL"},
        BadFile{"no_unk", {{"vocab.txt", "[PAD]\n[CLS]\n[SEP]\nboat\n"}}, "lacks the special token '[UNK]'"},
        BadFile{"no_cls", {{"vocab.txt", "[PAD]\n[UNK]\n[SEP]\nboat\n"}}, "lacks the special token '[CLS]'"},
        BadFile{"vocab_alone", {{"vocab.json", "{}"}}, "neither merges.txt nor vocab.bpe"},
        BadFile{"merges_alone", {{"vocab.bpe", ""}}, "neither vocab.json nor encoder.json"},
        BadFile{"cut_json", {{"vocab.json", "{\"a\": 0,\n\"b\": "}, {"merges.txt", ""}}, "vocab.json:2"},
        BadFile{"no_number", {{"vocab.json", "{\"a\": 0,\n\"b\": 1e999}"}, {"merges.txt", ""}}, "vocab.json:2"},
        BadFile{"no_object", {{"vocab.json", "[1, 2]"}, {"merges.txt", ""}}, "not a JSON object"},
        BadFile{"twice_in_json", {{"vocab.json", "{\"a\": 0, \"a\": 1}"}, {"merges.txt", ""}}, "\"a\" occurs twice"},
        BadFile{"same_number", {{"vocab.json", "{\"a\": 0, \"b\": 0}"}, {"merges.txt", ""}}, "both have the number 0"},
        BadFile{"negative", {{"vocab.json", "{\"a\": -1}"}, {"merges.txt", ""}}, "a token's number is -1"},
        BadFile{"fraction", {{"vocab.json", "{\"a\": 0.5}"}, {"merges.txt", ""}}, "a token's number is 0.5"},
        BadFile{
            "huge", {{"vocab.json", "{\"a\": 2147483647}"}, {"merges.txt", ""}}, "the highest number is 2147483647"},
        BadFile{
            "overflow", {{"vocab.json", "{\"a\": 99999999999999999999}"}, {"merges.txt", ""}}, "a token's number is"},
        BadFile{
            "one_token_merge", {{"vocab.json", vocab_json(kBpeTokens)}, {"merges.txt", "h i\nhi\n"}}, "merges.txt:2"},
        BadFile{
            "three_token_merge", {{"vocab.json", vocab_json(kBpeTokens)}, {"merges.txt", "h i hi\n"}}, "merges.txt:1"},
        BadFile{"strange_merge",
                {{"vocab.json", vocab_json(kBpeTokens)}, {"merges.txt", "h i\ni h\n"}},
                "needs the token 'ih'"},
        BadFile{"twice_merge", {{"vocab.json", vocab_json(kBpeTokens)}, {"merges.txt", "h i\nh i\n"}}, "merges.txt:2"},
        BadFile{"deep", {{"tokenizer.json", std::string(100000, '[')}}, "nested deeper"},
        BadFile{"config_is_list", {{"vocab.txt", kGoodTxt}, {"tokenizer_config.json", "[]"}}, "expected an object"},
        BadFile{"config_of_wrong_type",
                {{"vocab.txt", kGoodTxt}, {"tokenizer_config.json", "{\"do_lower_case\": 1}"}},
                "tokenizer_config.json.do_lower_case"},
        BadFile{"basic_tokenizer_off",
                {{"vocab.txt", kGoodTxt}, {"tokenizer_config.json", "{\"do_basic_tokenize\": false}"}},
                "tokenizer_config.json.do_basic_tokenize"},
        BadFile{
            "class_with_other_rules",
            {{"vocab.txt", kGoodTxt}, {"tokenizer_config.json", "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}"}},
            "tokenizer_config.json.tokenizer_class"},
        BadFile{"bpe_class_with_other_rules",
                {{"vocab.json", vocab_json(kBpeTokens)},
                 {"merges.txt", "h i\n"},
                 {"tokenizer_config.json", "{\"tokenizer_class\": \"CLIPTokenizerFast\"}"}},
                "the tokenizer class \"CLIPTokenizer\""},
        BadFile{"added_elsewhere",
                {{"vocab.txt", kGoodTxt}, {"added_tokens.json", "{\"[CLS]\": 3}"}},
                "'[CLS]' has the number 3, but the vocabulary gives it 2"},
        BadFile{"added_over_another",
                {{"vocab.txt", kGoodTxt}, {"added_tokens.json", "{\"x\": 3}"}},
                "which the vocabulary gives to '[SEP]'"},
        BadFile{
            "added_far_away", {{"vocab.txt", kGoodTxt}, {"added_tokens.json", "{\"x\": 2147483647}"}}, "far above"}),
    [](const auto& test) { return test.param.name; });

struct Unsupported {
  const char* name;
  const char* pointer;  // where the declaration goes
  const char* value;
  const char* want;
};

class UnsupportedJson : public ::testing::TestWithParam<Unsupported> {};

TEST_P(UnsupportedJson, IsAnErrorThatNamesIt) {
  json declared = bert_json();
  if (std::string(GetParam().name).rfind("bpe_", 0) == 0) {
    declared["model"] = {{"type", "BPE"}, {"vocab", json::parse(vocab_json(kBpeTokens))}, {"merges", {"h i"}}};
    declared["normalizer"] = nullptr;
    declared["pre_tokenizer"] = {{"type", "ByteLevel"}};
  }
  SmallFolder folder;
  folder.put("tokenizer.json", declared.dump());
  EXPECT_NO_THROW(folder.load());
  declared[json::json_pointer(GetParam().pointer)] = json::parse(GetParam().value);
  folder.put("tokenizer.json", declared.dump());
  expect_error(GetParam().want, [&] { folder.load(); });
}

INSTANTIATE_TEST_SUITE_P(
    Declarations, UnsupportedJson,
    ::testing::Values(
        Unsupported{"version", "/version", "\"2.0\"", "version"},
        Unsupported{"new_field", "/surprise", "{}", "\"surprise\""},
        Unsupported{"model_type", "/model/type", "\"Unigram\"", "\"Unigram\", as of T5"},
        Unsupported{"word_level", "/model/type", "\"WordLevel\"", "the model \"WordLevel\""},
        Unsupported{"model_field", "/model/surprise", "1", "model"},
        Unsupported{"unk", "/model/unk_token", "\"<unk>\"", "tokenizer.json: model.unk_token"},
        Unsupported{"empty_vocab", "/model/vocab", "{}", "no token"},
        Unsupported{"normalizer", "/normalizer", "{\"type\": \"NFC\"}", "the normalizer \"NFC\""},
        Unsupported{"normalizer_field", "/normalizer/surprise", "true", "\"surprise\""},
        Unsupported{"pre_tokenizer", "/pre_tokenizer", "{\"type\": \"Whitespace\"}", "Whitespace"},
        Unsupported{"no_pre_tokenizer", "/pre_tokenizer", "null", "pre-tokenizer null"},
        Unsupported{"decoder", "/decoder", "{\"type\": \"Metaspace\"}", "the decoder \"Metaspace\""},
        Unsupported{"post_processor", "/post_processor", "{\"type\": \"Twice\"}", "the post-processor \"Twice\""},
        Unsupported{
            "template_token", "/post_processor",
            "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"[X]\", \"type_id\": 0}},"
            "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": {}}",
            "'[X]' is not declared"},
        Unsupported{"template_without_text", "/post_processor",
                    "{\"type\": \"TemplateProcessing\", \"single\": [], \"pair\": [], \"special_tokens\": {}}",
                    "a text does not occur exactly once"},
        Unsupported{"sep_and_number", "/post_processor",
                    "{\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 2], \"cls\": [\"[CLS]\", 2]}",
                    "do not belong together"},
        Unsupported{"stride", "/truncation", "{\"max_length\": 9, \"strategy\": \"LongestFirst\", \"stride\": 4}",
                    "truncation.stride"},
        Unsupported{"strategy", "/truncation", "{\"max_length\": 9, \"strategy\": \"Shortest\", \"stride\": 0}",
                    "Shortest"},
        Unsupported{"padding", "/padding", "{\"strategy\": \"Random\", \"pad_id\": 0, \"pad_token\": \"[PAD]\"}",
                    "Random"},
        Unsupported{"pad_token", "/padding",
                    "{\"strategy\": \"BatchLongest\", \"pad_id\": 1, \"pad_token\": \"[PAD]\"}",
                    "does not have the number 1"},
        Unsupported{"added_twice", "/added_tokens",
                    "[{\"id\": 24, \"content\": \"x\"}, {\"id\": 25, \"content\": \"x\"}]", "occurs twice"},
        Unsupported{"added_empty", "/added_tokens", "[{\"id\": 24, \"content\": \"\"}]", "empty"},
        Unsupported{"bpe_dropout", "/model/dropout", "0.1", "model.dropout"},
        Unsupported{"bpe_suffix", "/model/end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix"},
        Unsupported{"bpe_fallback", "/model/byte_fallback", "true", "model.byte_fallback"},
        Unsupported{"bpe_llama_2", "/model/byte_fallback", "true", "SentencePiece's BPE, as of Llama 2"},
        Unsupported{"bpe_metaspace", "/pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"\u2581\"}",
                    "SentencePiece's BPE"},
        Unsupported{"bpe_prepend", "/normalizer",
                    "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"\u2581\"}]}",
                    "SentencePiece's BPE"},
        Unsupported{"bpe_normalizer", "/normalizer", "{\"type\": \"NFKC\"}", "a normalizer before byte-level BPE"},
        Unsupported{"bpe_split_alone", "/pre_tokenizer",
                    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Isolated\"}",
                    "without the pre-tokenizer ByteLevel"},
        Unsupported{
            "bpe_behavior", "/pre_tokenizer",
            "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, "
            "\"behavior\": \"MergedWithNext\", \"invert\": false}, {\"type\": \"ByteLevel\"}]}",
            "\"MergedWithNext\""},
        Unsupported{"bpe_prefix_of_pieces", "/pre_tokenizer",
                    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}, {\"type\": \"ByteLevel\"}]}",
                    "a blank before each piece"},
        Unsupported{
            "bpe_cutter", "/pre_tokenizer",
            "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Punctuation\"}, {\"type\": \"ByteLevel\"}]}",
            "\"Punctuation\" with BPE"},
        Unsupported{"bpe_processors", "/post_processor",
                    "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}]}", "a sequence other than"},
        Unsupported{"bpe_merge", "/model/merges", "[\"h\"]", "model.merges[0]"},
        Unsupported{"bpe_merge_type", "/model/merges", "[[\"h\", 1]]", "model.merges[0]"}),
    [](const auto& test) { return test.param.name; });

TEST(Load, MissingFolderAndFile) {
  expect_error("this is not a folder", [] { load_tokenizer("/nonexistent/tokenizer"); });
  expect_error("/nonexistent/tokenizer.json", [] { load_tokenizer_json("/nonexistent/tokenizer.json"); });
  const TemporaryFolder folder;
  expect_error("not a regular file", [&] { load_bert_vocabulary(folder.path()); });
}

}  // namespace
}  // namespace lockstep
