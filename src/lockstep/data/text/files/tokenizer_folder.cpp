// Tokenizers from the files of a Hugging Face folder.
#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/text/files/tokenizer_config.h"
#include "lockstep/data/text/files/tokenizer_document.h"
#include "lockstep/data/text/files/tokenizer_settings.h"
#include "lockstep/data/text/tokenizer.h"

namespace lockstep {
namespace {

using nlohmann::json;
using text::AddedToken;
using text::TokenizerConfig;
using text::TokenizerDocument;

std::string path_in(const std::string& dir, const std::string& name) {
  return (std::filesystem::path(dir) / name).string();
}

TokenId require_special(const TokenizerDocument& document, const std::string& token) {
  if (const auto id = find_token(document, token)) return *id;
  throw Error("the vocabulary lacks the special token '" + token + "'", document.where,
              "take all files from the same model, or name its special tokens in tokenizer_config.json");
}

/// Declares the special tokens of the vocabulary as tokens to find in texts.
void declare_special_tokens(TokenizerDocument& document) {
  const SpecialTokens& special = document.special;
  for (const auto* name :
       {&special.unk, &special.bos, &special.eos, &special.sep, &special.pad, &special.cls, &special.mask}) {
    if (!*name) continue;
    const auto same = [&](const AddedToken& token) { return token.content == **name; };
    if (std::any_of(document.added_tokens.begin(), document.added_tokens.end(), same)) continue;
    const auto id = document.vocabulary.find(**name);
    if (!id) continue;
    AddedToken token;
    token.content = **name;
    token.id = *id;
    token.special = true;
    document.added_tokens.push_back(token);
  }
  std::stable_sort(document.added_tokens.begin(), document.added_tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

void declare_never_split(const std::vector<std::string>& words, TokenizerDocument& document) {
  for (const std::string& word : words) {
    if (find_token(document, word) && document.vocabulary.find(word) == std::nullopt) continue;
    const auto same = [&](const AddedToken& token) { return token.content == word; };
    if (std::any_of(document.added_tokens.begin(), document.added_tokens.end(), same)) continue;
    AddedToken token;
    token.content = word;
    token.id = document.vocabulary.find(word).value_or(require_special(document, *document.special.unk));
    token.between_spaces = true;
    document.added_tokens.push_back(token);
  }
}

json special_token_entry(const std::string& token, TokenId id) {
  return {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
}

json template_special(const std::string& token, int type_id) {
  return {{"SpecialToken", {{"id", token}, {"type_id", type_id}}}};
}
json template_text(const char* name, int type_id) { return {{"Sequence", {{"id", name}, {"type_id", type_id}}}}; }

json bert_post_processor(const TokenizerDocument& document) {
  const std::string cls = *document.special.cls;
  const std::string sep = *document.special.sep;
  const json single = {template_special(cls, 0), template_text("A", 0), template_special(sep, 0)};
  json pair = single;
  pair.push_back(template_text("B", 1));
  pair.push_back(template_special(sep, 1));
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens",
           {{cls, special_token_entry(cls, require_special(document, cls))},
            {sep, special_token_entry(sep, require_special(document, sep))}}}};
}

void fill_in(SpecialTokens& special, const SpecialTokens& defaults) {
  for (const auto member : {&SpecialTokens::unk, &SpecialTokens::pad, &SpecialTokens::cls, &SpecialTokens::sep,
                            &SpecialTokens::mask, &SpecialTokens::bos, &SpecialTokens::eos}) {
    if (!(special.*member)) special.*member = defaults.*member;
  }
}

const SpecialTokens kBertSpecial = {"[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", std::nullopt, std::nullopt};
const SpecialTokens kRobertaSpecial = {"<unk>", "<pad>", "<s>", "</s>", "<mask>", "<s>", "</s>"};
const SpecialTokens kGpt2Special = {"<|endoftext|>", std::nullopt,    std::nullopt,   std::nullopt,
                                    std::nullopt,    "<|endoftext|>", "<|endoftext|>"};

/// Removes special tokens that do not exist.
void drop_missing(TokenizerDocument& document) {
  SpecialTokens& special = document.special;
  for (const auto member : {&SpecialTokens::unk, &SpecialTokens::pad, &SpecialTokens::cls, &SpecialTokens::sep,
                            &SpecialTokens::mask, &SpecialTokens::bos, &SpecialTokens::eos}) {
    if (special.*member && !find_token(document, *(special.*member))) (special.*member).reset();
  }
}

TokenizerDocument bert_document(const std::string& path, const TokenizerConfig& config) {
  TokenizerDocument document;
  document.where = path;
  document.class_name = "BertTokenizer";
  document.model_max_length = config.model_max_length;
  document.vocabulary = Vocabulary::from_txt(path);
  document.added_tokens = config.added_tokens;
  document.special = config.special;
  fill_in(document.special, kBertSpecial);
  for (const auto& token : {document.special.unk, document.special.cls, document.special.sep}) {
    require_special(document, *token);
  }
  declare_special_tokens(document);
  declare_never_split(config.never_split, document);
  drop_missing(document);
  const json accents = config.strip_accents ? json(*config.strip_accents) : json();
  document.json = {{"normalizer",
                    {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", config.tokenize_chinese_chars.value_or(true)},
                     {"strip_accents", accents},
                     {"lowercase", config.do_lower_case.value_or(true)}}},
                   {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                   {"post_processor", bert_post_processor(document)},
                   {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                   {"model",
                    {{"type", "WordPiece"},
                     {"unk_token", *document.special.unk},
                     {"continuing_subword_prefix", "##"},
                     {"max_input_chars_per_word", 100}}}};
  return document;
}

bool is_roberta(const TokenizerConfig& config, const Vocabulary& vocabulary) {
  if (config.class_name == "RobertaTokenizer" || config.model_type == "roberta") return true;
  if (config.class_name == "GPT2Tokenizer" || config.model_type == "gpt2") return false;
  return vocabulary.find("<s>") && vocabulary.find("</s>") && !vocabulary.find("<|endoftext|>");
}

json byte_level(bool add_prefix_space, bool trim_offsets) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", true}};
}

void declare_roberta_mask(TokenizerDocument& document) {
  // The mask token takes the blank before it, so that "a <mask>" has no separate blank.
  for (AddedToken& token : document.added_tokens) {
    if (document.special.mask == token.content) token.lstrip = true;
  }
}

TokenizerDocument byte_pair_document(const std::string& vocab_path, const std::string& merges_path,
                                     const TokenizerConfig& config) {
  TokenizerDocument document;
  document.where = vocab_path;
  document.model_max_length = config.model_max_length;
  document.vocabulary = Vocabulary::from_json(vocab_path);
  document.merges = text::read_merges(merges_path);
  document.added_tokens = config.added_tokens;
  document.special = config.special;
  const bool roberta = is_roberta(config, document.vocabulary);
  document.class_name = roberta ? "RobertaTokenizer" : "GPT2Tokenizer";
  fill_in(document.special, roberta ? kRobertaSpecial : kGpt2Special);
  if (roberta) {
    for (const auto& token : {document.special.cls, document.special.sep}) require_special(document, *token);
  }
  const bool mask_declared =
      std::any_of(document.added_tokens.begin(), document.added_tokens.end(),
                  [&](const AddedToken& token) { return document.special.mask == token.content; });
  declare_special_tokens(document);
  if (roberta && !mask_declared) declare_roberta_mask(document);
  drop_missing(document);
  const bool prefix = config.add_prefix_space.value_or(false);
  json processor = byte_level(prefix, false);
  if (roberta) {
    const auto pair = [&](const std::string& token) { return json::array({token, require_special(document, token)}); };
    processor = {{"type", "RobertaProcessing"},
                 {"sep", pair(*document.special.sep)},
                 {"cls", pair(*document.special.cls)},
                 {"trim_offsets", true},
                 {"add_prefix_space", prefix}};
  }
  document.json = {{"pre_tokenizer", byte_level(prefix, true)},
                   {"post_processor", processor},
                   {"decoder", byte_level(true, true)},
                   {"model",
                    {{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"continuing_subword_prefix", ""},
                     {"end_of_word_suffix", ""},
                     {"fuse_unk", false},
                     {"byte_fallback", false},
                     {"ignore_merges", false}}}};
  return document;
}

/// Derives special tokens from the vocabulary, if no configuration declares them.
void guess_special_tokens(TokenizerDocument& document) {
  if (is_word_piece(document)) {
    fill_in(document.special, kBertSpecial);
  } else {
    fill_in(document.special, document.vocabulary.find("<|endoftext|>") ? kGpt2Special : kRobertaSpecial);
  }
  drop_missing(document);
}

/// tokenizer_config.json takes precedence, because it is the file that people edit.
void apply_config(const TokenizerConfig& config, TokenizerDocument& document) {
  const auto set = [&](const char* part, const char* field, const std::optional<bool>& value) {
    json& root = document.json;
    if (value && root.contains(part) && root[part].is_object() && root[part].contains(field))
      root[part][field] = *value;
  };
  set("normalizer", "lowercase", config.do_lower_case);
  set("normalizer", "strip_accents", config.strip_accents);
  set("normalizer", "handle_chinese_chars", config.tokenize_chinese_chars);
  set("pre_tokenizer", "add_prefix_space", config.add_prefix_space);
  set("post_processor", "add_prefix_space", config.add_prefix_space);
  document.class_name = config.class_name;
  document.model_max_length = config.model_max_length;
  document.special = config.special;
  for (const AddedToken& token : config.added_tokens) {
    const auto same = [&](const AddedToken& known) { return known.content == token.content; };
    if (std::none_of(document.added_tokens.begin(), document.added_tokens.end(), same))
      document.added_tokens.push_back(token);
  }
}

TokenizerDocument json_document(const std::string& path, const TokenizerConfig& config) {
  TokenizerDocument document = text::read_tokenizer_json(path);
  apply_config(config, document);
  guess_special_tokens(document);
  if (is_word_piece(document)) declare_never_split(config.never_split, document);
  return document;
}

TokenizerDocument folder_document(const std::string& dir, const TokenizerConfig& config) {
  const auto exists = [&](const char* name) { return std::filesystem::exists(path_in(dir, name)); };
  if (exists("tokenizer.json")) return json_document(path_in(dir, "tokenizer.json"), config);
  if (exists("vocab.txt")) {
    require_class_for(text::VocabularyFiles::WordPiece, config, dir);
    TokenizerDocument document = bert_document(path_in(dir, "vocab.txt"), config);
    warn_of_capitals(config, document);
    return document;
  }
  const char* vocab = exists("vocab.json") ? "vocab.json" : exists("encoder.json") ? "encoder.json" : nullptr;
  const char* merges = exists("merges.txt") ? "merges.txt" : exists("vocab.bpe") ? "vocab.bpe" : nullptr;
  if (vocab != nullptr && merges != nullptr) {
    require_class_for(text::VocabularyFiles::ByteLevelBpe, config, dir);
    return byte_pair_document(path_in(dir, vocab), path_in(dir, merges), config);
  }
  if (vocab != nullptr || merges != nullptr) {
    throw Error(std::string("there is ") + (vocab != nullptr ? vocab : merges) + ", but neither " +
                    (vocab != nullptr ? "merges.txt nor vocab.bpe" : "vocab.json nor encoder.json"),
                dir, "byte-level BPE needs both: use those of the same model");
  }
  throw Error("there is no tokenizer: neither tokenizer.json, nor vocab.txt, nor vocab.json with merges.txt", dir,
              "name the folder of a Hugging Face model");
}

}  // namespace

Tokenizer load_tokenizer(const std::string& dir) {
  if (!std::filesystem::is_directory(dir))
    throw Error("this is not a folder", dir, "name the folder of a Hugging Face model");
  const TokenizerConfig config = text::read_tokenizer_config(dir);
  TokenizerDocument document = folder_document(dir, config);
  apply_settings(config, document);
  Tokenizer tokenizer = text::make_tokenizer(std::move(document));
  EncodeOptions defaults = tokenizer.default_options();
  if (config.truncation_side && defaults.truncation) defaults.truncation->side = *config.truncation_side;
  if (config.padding_side && defaults.padding) defaults.padding->side = *config.padding_side;
  tokenizer.set_default_options(defaults);
  return tokenizer;
}

Tokenizer load_tokenizer_json(const std::string& path) { return text::make_tokenizer(json_document(path, {})); }

Tokenizer load_bert_vocabulary(const std::string& path, const BertTokenizerOptions& options) {
  TokenizerConfig config;
  config.do_lower_case = options.do_lower_case;
  config.tokenize_chinese_chars = options.tokenize_chinese_chars;
  config.strip_accents = options.strip_accents;
  config.never_split = options.never_split;
  return text::make_tokenizer(bert_document(path, config));
}

}  // namespace lockstep
