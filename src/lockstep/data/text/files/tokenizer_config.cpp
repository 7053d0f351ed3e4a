#include "lockstep/data/text/files/tokenizer_config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/log.h"
#include "lockstep/data/text/files/json_fields.h"
#include "lockstep/data/text/files/json_file.h"

namespace lockstep::text {
namespace {

struct SpecialName {
  const char* key;
  std::optional<std::string> SpecialTokens::*token;
};
constexpr SpecialName kSpecialNames[] = {{"unk_token", &SpecialTokens::unk},   {"pad_token", &SpecialTokens::pad},
                                         {"cls_token", &SpecialTokens::cls},   {"sep_token", &SpecialTokens::sep},
                                         {"mask_token", &SpecialTokens::mask}, {"bos_token", &SpecialTokens::bos},
                                         {"eos_token", &SpecialTokens::eos}};

/// Larger than any model's input; transformers writes such a number for "no limit".
constexpr double kNoLimit = 2147483647.0;

std::string config_path(const std::string& dir, const char* name) {
  return (std::filesystem::path(dir) / name).string();
}

/// A special token is a text, or an object whose `content` is the text.
std::optional<std::string> special_token(JsonFields& fields, const std::string& key) {
  const nlohmann::json* value = fields.find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_object() && value->contains("content") && (*value)["content"].is_string()) {
    return (*value)["content"].get<std::string>();
  }
  return fields.text(key);
}

void read_special_tokens(JsonFields& fields, SpecialTokens& special) {
  for (const SpecialName& name : kSpecialNames) {
    if (const auto token = special_token(fields, name.key)) special.*(name.token) = token;
  }
}

// A list of tokens, or an object of tokens with a name, as of "image_token". Each is a text, or has a `content`.
void read_more_special(JsonFields& fields, TokenizerConfig& config) {
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const nlohmann::json* tokens = fields.find(key);
    if (tokens == nullptr || tokens->is_null()) continue;
    if (!tokens->is_array() && !tokens->is_object()) {
      throw Error("expected a list of tokens, but it says " + show_json(*tokens), fields.place(key),
                  "correct the file");
    }
    for (const nlohmann::json& token : *tokens) {
      const nlohmann::json& content = token.is_object() && token.contains("content") ? token["content"] : token;
      if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
        throw Error("expected a token, but it says " + show_json(token), fields.place(key), "correct the file");
      }
      config.more_special.push_back(content.get<std::string>());
    }
  }
}

// Which inputs a model gets. Hugging Face leaves out those that are not named.
void read_input_names(JsonFields& fields, TokenizerConfig& config) {
  constexpr const char* kKey = "model_input_names";
  const nlohmann::json* names = fields.find(kKey);
  if (names == nullptr || names->is_null()) return;
  const auto names_input = [&](const char* name) {
    return std::any_of(names->begin(), names->end(), [&](const nlohmann::json& one) { return one == name; });
  };
  if (!names->is_array() || !names_input("input_ids") || !names_input("attention_mask")) {
    throw Error("not supported: " + show_json(*names) + ", without \"input_ids\" or without \"attention_mask\"",
                fields.place(kKey), "name both: a model of this library always gets them");
  }
  config.has_token_types = names_input("token_type_ids");
}

std::optional<SequenceSide> side(JsonFields& fields, const std::string& key) {
  const auto text = fields.text(key);
  if (!text) return std::nullopt;
  if (*text == "right") return SequenceSide::Right;
  if (*text == "left") return SequenceSide::Left;
  throw Error("expected \"right\" or \"left\", but it says \"" + *text + "\"", fields.place(key), "correct the file");
}

void read_added_tokens_decoder(JsonFields& fields, TokenizerConfig& config) {
  const nlohmann::json* tokens = fields.find("added_tokens_decoder");
  if (tokens == nullptr || tokens->is_null()) return;
  const std::string where = fields.place("added_tokens_decoder");
  if (!tokens->is_object())
    throw Error("expected an object, but it says " + show_json(*tokens), where, "correct the file");
  for (const auto& item : tokens->items()) {
    JsonFields one(item.value(), where + "." + item.key());
    AddedToken token;
    const nlohmann::json id = nlohmann::json::parse(item.key(), nullptr, false);
    token.id = json_id(id, one.where());
    token.content = one.text("content", "");
    token.single_word = one.flag("single_word", false);
    token.lstrip = one.flag("lstrip", false);
    token.rstrip = one.flag("rstrip", false);
    token.normalized = one.flag("normalized", true);
    token.special = one.flag("special", false);
    if (token.content.empty()) throw Error("an added token is empty", one.where(), "remove it");
    config.added_tokens.push_back(token);
  }
}

// transformers 5 passes `never_split` over, as the fast tokenizers of version 4 did: words of it are cut like others.
void warn_of_never_split(JsonFields& fields) {
  const nlohmann::json* words = fields.find("never_split");
  if (words == nullptr || words->is_null() || words->empty()) return;
  log_warning(
      "{}: ignored, as transformers 5 does, so these words are split like others; a program keeps them whole with "
      "load_bert_vocabulary's never_split",
      fields.place("never_split"));
}

// The words that a program gave as BertTokenizerOptions::never_split, of a tokenizer that this library saved.
void read_whole_words(JsonFields& fields, TokenizerConfig& config) {
  const nlohmann::json* words = fields.find(kWholeWordsField);
  if (words == nullptr) return;
  if (!words->is_array()) {
    throw Error("expected a list, but it says " + show_json(*words), fields.place(kWholeWordsField),
                "correct the file");
  }
  for (const nlohmann::json& word : *words) {
    if (!word.is_string() || word.get_ref<const std::string&>().empty()) {
      throw Error("expected words, but it says " + show_json(word), fields.place(kWholeWordsField), "correct the file");
    }
    config.never_split.push_back(word.get<std::string>());
  }
}

void read_config(const std::string& path, TokenizerConfig& config) {
  const nlohmann::json root = read_json_file(path);
  JsonFields fields(root, path);
  config.class_name = fields.text("tokenizer_class", "");
  constexpr std::string_view kFast = "Fast";
  if (config.class_name.size() > kFast.size() &&
      config.class_name.compare(config.class_name.size() - kFast.size(), kFast.size(), kFast) == 0) {
    config.class_name.resize(config.class_name.size() - kFast.size());
  }
  config.do_lower_case = fields.flag("do_lower_case");
  config.strip_accents = fields.flag("strip_accents");
  config.tokenize_chinese_chars = fields.flag("tokenize_chinese_chars");
  config.add_prefix_space = fields.flag("add_prefix_space");
  config.padding_side = side(fields, "padding_side");
  config.truncation_side = side(fields, "truncation_side");
  fields.only("do_basic_tokenize", true);
  fields.only("add_bos_token", false);
  fields.only("add_eos_token", false);
  fields.only("split_special_tokens", false);
  const nlohmann::json* length = fields.find("model_max_length");
  if (length != nullptr && length->is_number() && length->get<double>() > 0 && length->get<double>() < kNoLimit) {
    config.model_max_length = static_cast<std::int64_t>(length->get<double>());
  }
  read_special_tokens(fields, config.special);
  read_more_special(fields, config);
  read_input_names(fields, config);
  config.cleans_up = fields.flag("clean_up_tokenization_spaces", false);
  config.cleans_up_bpe = fields.flag("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false);
  config.source = root;
  warn_of_never_split(fields);
  read_whole_words(fields, config);
  read_added_tokens_decoder(fields, config);
}

void read_added_tokens(const std::string& path, TokenizerConfig& config) {
  const nlohmann::json root = read_json_file(path);
  if (!root.is_object()) throw Error("expected {\"token\": number, ...}", path, "correct the file");
  for (const auto& item : root.items()) {
    AddedToken token;
    token.content = item.key();
    token.id = json_id(item.value(), path + ": \"" + item.key() + "\"");
    const auto same = [&](const AddedToken& known) { return known.content == token.content; };
    if (std::any_of(config.added_tokens.begin(), config.added_tokens.end(), same)) continue;
    for (const SpecialName& name : kSpecialNames)
      token.special = token.special || config.special.*(name.token) == token.content;
    token.normalized = !token.special;
    if (token.content.empty()) throw Error("an added token is empty", path, "remove it");
    config.added_tokens.push_back(token);
  }
}

// As transformers writes them beside tokenizer_config.json, if they are not in it.
std::map<std::string, std::string> read_chat_templates(const std::string& dir) {
  constexpr const char* kTemplate = "chat_template.jinja";
  constexpr const char* kMoreTemplates = "additional_chat_templates";
  constexpr std::uint64_t kMostTemplateBytes = std::uint64_t{1} << 24;
  std::map<std::string, std::string> templates;
  const std::filesystem::path folder = dir;
  const auto read = [&](const std::filesystem::path& name) {
    templates[name.string()] = read_regular_file((folder / name).string(), kMostTemplateBytes);
  };
  if (std::filesystem::exists(folder / kTemplate)) read(kTemplate);
  std::error_code none;  // there is no such folder
  for (const auto& entry : std::filesystem::directory_iterator(folder / kMoreTemplates, none)) {
    const std::filesystem::path name = entry.path().filename();
    if (name.extension() == ".jinja") read(kMoreTemplates / name);
  }
  return templates;
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& dir) {
  TokenizerConfig config;
  const auto exists = [&](const char* name) { return std::filesystem::exists(config_path(dir, name)); };
  if (exists("config.json")) {
    const nlohmann::json root = read_json_file(config_path(dir, "config.json"));
    JsonFields fields(root, config_path(dir, "config.json"));
    config.model_type = fields.text("model_type", "");
  }
  if (exists("special_tokens_map.json")) {
    const nlohmann::json root = read_json_file(config_path(dir, "special_tokens_map.json"));
    JsonFields fields(root, config_path(dir, "special_tokens_map.json"));
    read_special_tokens(fields, config.special);
    read_more_special(fields, config);
  }
  if (exists("tokenizer_config.json")) read_config(config_path(dir, "tokenizer_config.json"), config);
  if (exists("added_tokens.json")) read_added_tokens(config_path(dir, "added_tokens.json"), config);
  config.templates = read_chat_templates(dir);
  return config;
}

void require_class_for(VocabularyFiles files, const TokenizerConfig& config, const std::string& dir) {
  // transformers makes all of these with one normaliser, pre-tokenizer and post-processor. Some exporters write the
  // base classes.
  static const std::vector<std::string_view> word_piece{"BertTokenizer",
                                                        "DistilBertTokenizer",
                                                        "ElectraTokenizer",
                                                        "MobileBertTokenizer",
                                                        "SqueezeBertTokenizer",
                                                        "ConvBertTokenizer",
                                                        "LayoutLMTokenizer",
                                                        "LxmertTokenizer",
                                                        "DPRQuestionEncoderTokenizer",
                                                        "DPRContextEncoderTokenizer",
                                                        "PreTrainedTokenizer"};
  static const std::vector<std::string_view> byte_level{"GPT2Tokenizer",       "RobertaTokenizer", "BartTokenizer",
                                                        "LongformerTokenizer", "LEDTokenizer",     "CodeGenTokenizer",
                                                        "PreTrainedTokenizer"};
  const auto& known = files == VocabularyFiles::WordPiece ? word_piece : byte_level;
  if (config.class_name.empty() || std::find(known.begin(), known.end(), config.class_name) != known.end()) return;
  throw Error(
      "not supported: the tokenizer class \"" + config.class_name + "\"",
      (std::filesystem::path(dir) / "tokenizer_config.json").string() + ".tokenizer_class",
      "save it with its tokenizer.json (in Python: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)), "
      "which says how it cuts texts");
}

}  // namespace lockstep::text
