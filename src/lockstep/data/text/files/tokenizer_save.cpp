// Writes a tokenizer as a Hugging Face folder.
#include <cerrno>
#include <filesystem>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/data/text/files/splitter_json.h"
#include "lockstep/data/text/files/tokenizer_config.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text/tokenizer_core.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;
using text::TokenizerDocument;

std::string dump(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::strict) + "\n";
}

/// One token per line, by number; an unused number is an empty line.
std::string vocab_txt(const Vocabulary& vocabulary) {
  std::string lines;
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    if (vocabulary.contains(id)) {
      const std::string& token = vocabulary.token(id);
      if (token.find('\n') != std::string::npos || (!token.empty() && token.back() == '\r')) {
        throw Error("the token with number " + std::to_string(id) + " contains a line break", "vocab.txt",
                    "such a vocabulary can only be saved as tokenizer.json");
      }
      lines += token;
    }
    lines += '\n';
  }
  return lines;
}

std::string vocab_json(const Vocabulary& vocabulary) {
  ordered_json::object_t entries;
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    if (vocabulary.contains(id)) entries.push_back({vocabulary.token(id), id});
  }
  return dump(ordered_json(std::move(entries)), -1);
}

std::string merges_txt(const std::vector<text::Merge>& merges) {
  std::string lines = "#version: 0.2\n";
  for (const text::Merge& merge : merges) lines += merge.left + " " + merge.right + "\n";
  return lines;
}

ordered_json config_json(const TokenizerDocument& document, const SpecialTokens& special,
                         const std::optional<std::int64_t>& model_max_length) {
  ordered_json config;
  const bool word_piece = is_word_piece(document);
  if (word_piece) {
    const text::BertNormalizerOptions normalizer = normalizer_options(document);
    config["do_lower_case"] = normalizer.lowercase;
    config["tokenize_chinese_chars"] = normalizer.handle_chinese_chars;
    config["strip_accents"] = normalizer.strip_accents ? ordered_json(*normalizer.strip_accents) : ordered_json();
  } else {
    const bool is_split = text::declared_split(document).has_value();
    config["add_prefix_space"] = !is_split && byte_level_options(document).add_prefix_space;
  }
  ordered_json whole_words = ordered_json::array();
  for (const text::AddedToken& token : document.added_tokens) {
    if (token.between_spaces) whole_words.push_back(token.content);
  }
  if (!whole_words.empty()) config[text::kWholeWordsField] = whole_words;
  if (model_max_length) config["model_max_length"] = *model_max_length;
  const auto put = [&](const char* name, const std::optional<std::string>& token) {
    if (token) config[name] = *token;
  };
  put("unk_token", special.unk);
  put("pad_token", special.pad);
  put("cls_token", special.cls);
  put("sep_token", special.sep);
  put("mask_token", special.mask);
  put("bos_token", special.bos);
  put("eos_token", special.eos);
  config["tokenizer_class"] = !document.class_name.empty() ? document.class_name
                              : word_piece                 ? "BertTokenizer"
                                                           : "GPT2Tokenizer";
  // What other programs read, such as a template for chats, stays as it was. Paths of the machine that saved the file
  // and words that nothing keeps whole do not.
  static const std::set<std::string> gone{"never_split", "name_or_path", "tokenizer_file", "special_tokens_map_file"};
  for (const auto& [key, value] : document.config.items()) {
    if (!config.contains(key) && gone.count(key) == 0 && key != text::kWholeWordsField) config[key] = value;
  }
  // Those of special_tokens_map.json, which is not written.
  constexpr const char* kMoreSpecial = "additional_special_tokens";
  const bool has_list = config.contains(kMoreSpecial) || config.contains("extra_special_tokens");
  if (!has_list && !document.more_special.empty()) config[kMoreSpecial] = document.more_special;
  return config;
}

}  // namespace

std::string Tokenizer::to_json() const {
  const TokenizerDocument& document = core_->document();
  return dump(
      {{"tokenizer", write_tokenizer_json(document)}, {"config", config_json(document, special_, model_max_length_)}},
      -1);
}

std::map<std::string, std::string> Tokenizer::files() const {
  const TokenizerDocument& document = core_->document();
  std::map<std::string, std::string> files = document.templates;
  if (is_word_piece(document)) {
    files["vocab.txt"] = vocab_txt(document.vocabulary);
  } else {
    files["vocab.json"] = vocab_json(document.vocabulary);
    files["merges.txt"] = merges_txt(document.merges);
  }
  files["tokenizer.json"] = dump(write_tokenizer_json(document), -1);
  files["tokenizer_config.json"] = dump(config_json(document, special_, model_max_length_), 2);
  return files;
}

void Tokenizer::save(const std::string& dir) const {
  for (const auto& [name, content] : files()) {
    const std::filesystem::path path = std::filesystem::path(dir) / name;
    create_folders(path.parent_path().string());
    write_file_atomically(path.string(), content);
  }
}

}  // namespace lockstep
