// Settings of tokenizer_config.json and its neighbours: each is applied, or refused by name, and stays when the
// tokenizer is saved.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/log.h"
#include "lockstep/data/text/tokenizer.h"
#include "tests/data/text/small_tokenizers.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using SettingIds = std::vector<TokenId>;

class TokenizerSettings : public ::testing::Test {
 protected:
  void SetUp() override { folder_.put("vocab.txt", lines(small_bert_tokens())); }

  Tokenizer with(const nlohmann::json& config) {
    folder_.put("tokenizer_config.json", config.dump());
    return folder_.load();
  }
  static SettingIds cut(const Tokenizer& tokenizer, std::int64_t tokens) {
    EncodeOptions options;
    options.truncation.emplace();
    options.truncation->max_length = tokens;
    return tokenizer.encode("the boat is not here", options).ids;
  }
  static Tokenizer saved_and_loaded(const Tokenizer& tokenizer) {
    const TemporaryFolder folder;
    tokenizer.save(folder.path());
    return load_tokenizer(folder.path());
  }

  SmallFolder folder_;
};

TEST_F(TokenizerSettings, TruncationSideIsWhereTextsAreCut) {
  EXPECT_EQ(cut(with({{"do_lower_case", true}}), 4), (SettingIds{2, 5, 6, 3}));
  const Tokenizer left = with({{"truncation_side", "left"}});
  EXPECT_EQ(left.truncation_side(), SequenceSide::Left);
  EXPECT_EQ(cut(left, 4), (SettingIds{2, 9, 10, 3}));
  EXPECT_EQ(cut(saved_and_loaded(left), 4), (SettingIds{2, 9, 10, 3}));

  // Pairs and batches, too; a caller that names a side has the last word.
  EncodeOptions options;
  options.truncation = Truncation{6};
  EXPECT_EQ(left.encode_pair("the boat is", "not here", options).ids, (SettingIds{2, 6, 8, 3, 10, 3}));
  EXPECT_EQ(left.encode_batch({"the boat is not here a"}, options).at(0).ids, (SettingIds{2, 8, 9, 10, 14, 3}));
  EXPECT_EQ(left.encode_pair_batch({{"the boat is", "not here"}}, options).at(0).ids, (SettingIds{2, 6, 8, 3, 10, 3}));
  options.truncation->side = SequenceSide::Right;
  EXPECT_EQ(left.encode("the boat is not here a", options).ids, (SettingIds{2, 5, 6, 8, 9, 3}));
}

TEST_F(TokenizerSettings, TheDirectionOfTokenizerJsonIsWhereTextsAreCutIfNoOtherFileSaysMore) {
  const TemporaryFolder saved;
  folder_.load().save(saved.path());
  nlohmann::json document = nlohmann::json::parse(read_file(saved / "tokenizer.json"));
  document["truncation"] = {{"max_length", 512}, {"direction", "Left"}, {"stride", 0}, {"strategy", "LongestFirst"}};
  write_text(saved / "tokenizer.json", document.dump());
  EXPECT_EQ(cut(load_tokenizer(saved.path()), 4), (SettingIds{2, 9, 10, 3}));
  write_text(saved / "tokenizer_config.json", R"({"truncation_side": "right"})");
  EXPECT_EQ(cut(load_tokenizer(saved.path()), 4), (SettingIds{2, 5, 6, 3}));
}

TEST_F(TokenizerSettings, FurtherSpecialTokensAreFoundInTexts) {
  EXPECT_EQ(inner_ids(with({{"do_lower_case", true}}), "a don here"), (SettingIds{14, 20, 10}));
  for (const char* tokens : {R"(["##s"])", R"([{"content": "##s"}])"}) {
    const Tokenizer tokenizer = with({{"additional_special_tokens", nlohmann::json::parse(tokens)}});
    EXPECT_EQ(inner_ids(tokenizer, "a ##s here"), (SettingIds{14, 7, 10}));
    DecodeOptions plain;
    plain.skip_special_tokens = true;
    EXPECT_EQ(tokenizer.decode({14, 7, 10}, plain), "a here");
    EXPECT_EQ(inner_ids(saved_and_loaded(tokenizer), "a ##s here"), (SettingIds{14, 7, 10}));
  }
  EXPECT_EQ(inner_ids(with({{"extra_special_tokens", {{"mark", "##s"}}}}), "a ##s here"), (SettingIds{14, 7, 10}));
  with({{"do_lower_case", true}});
  folder_.put("special_tokens_map.json", R"({"additional_special_tokens": ["##s"]})");
  EXPECT_EQ(inner_ids(folder_.load(), "a ##s here"), (SettingIds{14, 7, 10}));
  folder_.put("special_tokens_map.json", R"({"additional_special_tokens": ["<turn>"]})");
  expect_error("the special token '<turn>' is neither in the vocabulary", [&] { folder_.load(); });
}

TEST_F(TokenizerSettings, ModelInputNamesSayWhetherPairsHaveTypes) {
  const auto types = [](const Tokenizer& tokenizer) { return tokenizer.encode_pair("the", "boat").token_type_ids; };
  EXPECT_EQ(types(with({{"model_input_names", {"input_ids", "token_type_ids", "attention_mask"}}})),
            (std::vector<std::int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(types(with({{"model_input_names", {"input_ids", "attention_mask"}}})),
            (std::vector<std::int32_t>{0, 0, 0, 0, 0}));
  expect_error("model_input_names", [&] { with({{"model_input_names", nlohmann::json::array({"input_ids"})}}); });
}

TEST_F(TokenizerSettings, StayWhenTheTokenizerIsSaved) {
  const Tokenizer tokenizer = with({{"truncation_side", "left"},
                                    {"padding_side", "left"},
                                    {"chat_template", "{{ messages }}"},
                                    {"clean_up_tokenization_spaces", true},
                                    {"model_input_names", {"input_ids", "attention_mask"}},
                                    {"name_or_path", "/models/downloaded"},
                                    {"tokenizer_class", "BertTokenizer"}});
  const auto saved = nlohmann::json::parse(tokenizer.files().at("tokenizer_config.json"));
  EXPECT_EQ(saved.at("truncation_side"), "left");
  EXPECT_EQ(saved.at("padding_side"), "left");
  EXPECT_EQ(saved.at("chat_template"), "{{ messages }}");
  EXPECT_EQ(saved.at("clean_up_tokenization_spaces"), true);
  EXPECT_EQ(saved.at("model_input_names").size(), 2U);
  EXPECT_FALSE(saved.contains("name_or_path"));
  EXPECT_EQ(saved_and_loaded(tokenizer).files(), tokenizer.files());
  EXPECT_EQ(saved_and_loaded(tokenizer).to_json(), tokenizer.to_json());
}

// transformers writes templates for chats into files of their own.
TEST_F(TokenizerSettings, TemplatesInFilesOfTheirOwnStayWhenTheTokenizerIsSaved) {
  folder_.put("chat_template.jinja", "{%- for message in messages %}\n{{ message }}{% endfor %}");
  std::filesystem::create_directory(std::filesystem::path(folder_.path()) / "additional_chat_templates");
  folder_.put("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  folder_.put("additional_chat_templates/notes.txt", "not a template");
  const Tokenizer tokenizer = with({{"do_lower_case", true}});
  const TemporaryFolder saved;
  tokenizer.save(saved.path());
  EXPECT_EQ(read_file(saved / "chat_template.jinja"), "{%- for message in messages %}\n{{ message }}{% endfor %}");
  EXPECT_EQ(read_file(saved / "additional_chat_templates/tool_use.jinja"), "{{ tools }}");
  EXPECT_FALSE(std::filesystem::exists(saved / "additional_chat_templates/notes.txt"));
  EXPECT_EQ(load_tokenizer(saved.path()).files(), tokenizer.files());
}

TEST_F(TokenizerSettings, FurtherSpecialTokensOfTheMapStayWhenTheTokenizerIsSaved) {
  folder_.put("special_tokens_map.json", R"({"additional_special_tokens": ["boat", {"content": "here"}]})");
  const Tokenizer tokenizer = folder_.load();
  const auto saved = nlohmann::json::parse(tokenizer.files().at("tokenizer_config.json"));
  EXPECT_EQ(saved.at("additional_special_tokens"), nlohmann::json({"boat", "here"}));
  EXPECT_EQ(saved_and_loaded(tokenizer).files(), tokenizer.files());
}

// bert-base-cased as vocab.txt alone: transformers lower-cases its texts, too, and says nothing.
TEST_F(TokenizerSettings, AVocabularyWithCapitalsThatIsLowerCasedIsSaid) {
  const auto log_of = [](const SmallFolder& folder) {
    std::ostringstream log;
    const LogRedirection to(log);
    folder.load();
    return log.str();
  };
  const std::string warning = log_of(folder_);
  EXPECT_NE(warning.find("capital letters, such as 'Boat', and texts are lower-cased"), std::string::npos) << warning;
  EXPECT_NE(warning.find("\"do_lower_case\": false"), std::string::npos) << warning;
  for (const char* said : {R"({"do_lower_case": true})", R"({"do_lower_case": false})"}) {
    folder_.put("tokenizer_config.json", said);
    EXPECT_EQ(log_of(folder_), "") << said;
  }
  SmallFolder uncased;
  uncased.put("vocab.txt", lines({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "the", "boat"}));
  EXPECT_EQ(log_of(uncased), "");
}

}  // namespace
}  // namespace lockstep
