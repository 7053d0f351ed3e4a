// tokenizer.json as a whole: reading and writing.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/text/files/json_fields.h"
#include "lockstep/data/text/files/json_file.h"
#include "lockstep/data/text/files/text_lines.h"
#include "lockstep/data/text/files/tokenizer_document.h"

namespace lockstep::text {
namespace {

Merge parse_merge(std::string_view line, const std::string& where) {
  const std::size_t blank = line.find(' ');
  const bool two = blank != std::string_view::npos && blank > 0 && blank + 1 < line.size() &&
                   line.find(' ', blank + 1) == std::string_view::npos;
  if (!two) {
    throw Error("expected two tokens separated by a blank, but it says '" + std::string(line.substr(0, 80)) + "'",
                where, "download the merges again");
  }
  return {std::string(line.substr(0, blank)), std::string(line.substr(blank + 1)), where};
}

Merge merge_of(const nlohmann::json& value, const std::string& where) {
  if (value.is_string()) return parse_merge(value.get_ref<const std::string&>(), where);
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    return {value[0].get<std::string>(), value[1].get<std::string>(), where};
  }
  throw Error("expected two tokens, but it says " + show_json(value), where, "download the file again");
}

std::vector<Merge> merges_of(const nlohmann::json& value, const std::string& where) {
  if (!value.is_array()) throw Error("expected a list, but it says " + show_json(value), where, "correct the file");
  std::vector<Merge> merges;
  merges.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i)
    merges.push_back(merge_of(value[i], where + "[" + std::to_string(i) + "]"));
  return merges;
}

Vocabulary vocabulary_of(const nlohmann::json& value, const std::string& where) {
  if (!value.is_object()) throw Error("expected an object, but it says " + show_json(value), where, "correct the file");
  if (value.empty()) throw Error("the vocabulary has no token", where, "download the file again");
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(value.size());
  for (const auto& item : value.items()) {
    entries.push_back({item.key(), json_id(item.value(), where + ".\"" + item.key() + "\""), where});
  }
  return Vocabulary(std::move(entries));
}

AddedToken added_token_of(const nlohmann::json& value, const std::string& where) {
  JsonFields fields(value, where);
  AddedToken token;
  token.id = json_id(fields.require("id"), fields.place("id"));
  token.content = fields.text("content", "");
  token.single_word = fields.flag("single_word", false);
  token.lstrip = fields.flag("lstrip", false);
  token.rstrip = fields.flag("rstrip", false);
  token.normalized = fields.flag("normalized", true);
  token.special = fields.flag("special", false);
  fields.finish();
  if (token.content.empty()) throw Error("an added token is empty", where, "remove it");
  return token;
}

nlohmann::ordered_json added_token_json(const AddedToken& token) {
  return {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
          {"special", token.special}};
}

}  // namespace

std::vector<Merge> read_merges(const std::string& path) {
  std::vector<Merge> merges;
  for_each_line(path, [&](std::string_view line, const std::string& where) {
    if (line.substr(0, 8) == "#version" || line.empty()) return;
    merges.push_back(parse_merge(line, where));
  });
  return merges;
}

TokenizerDocument read_tokenizer_json(const std::string& path) {
  TokenizerDocument document;
  document.where = path;
  document.json = read_json_file(path);
  JsonFields fields(document.json, path);
  fields.only("version", "1.0");
  fields.skip({"truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"});
  fields.require("model");
  const nlohmann::json* added = fields.find("added_tokens");
  fields.finish();
  if (added != nullptr && !added->is_null()) {
    if (!added->is_array())
      throw Error("expected a list, but it says " + show_json(*added), fields.place("added_tokens"),
                  "correct the file");
    for (const nlohmann::json& token : *added) {
      document.added_tokens.push_back(added_token_of(token, path + ": added_tokens"));
    }
  }
  document.json.erase("added_tokens");

  const bool word_piece = is_word_piece(document);
  nlohmann::json& model = document.json["model"];
  JsonFields model_fields(model, path + ": model");
  document.vocabulary = vocabulary_of(model_fields.require("vocab"), path + ": model.vocab");
  if (!word_piece) document.merges = merges_of(model_fields.require("merges"), path + ": model.merges");
  model["type"] = word_piece ? "WordPiece" : "BPE";
  model.erase("vocab");
  if (!word_piece) model.erase("merges");
  return document;
}

nlohmann::ordered_json write_tokenizer_json(const TokenizerDocument& document) {
  nlohmann::ordered_json root;
  const auto copy = [&](const char* name) {
    const auto found = document.json.find(name);
    root[name] = found == document.json.end() ? nlohmann::ordered_json() : nlohmann::ordered_json(*found);
  };
  root["version"] = "1.0";
  copy("truncation");
  copy("padding");
  root["added_tokens"] = nlohmann::ordered_json::array();
  for (const AddedToken& token : document.added_tokens) {
    if (!token.between_spaces) root["added_tokens"].push_back(added_token_json(token));
  }
  for (const char* name : {"normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}) copy(name);
  nlohmann::ordered_json::object_t vocab;
  for (TokenId id = 0; id < document.vocabulary.id_limit(); ++id) {
    // push_back, because an assignment by key would search all earlier keys.
    if (document.vocabulary.contains(id)) vocab.push_back({document.vocabulary.token(id), id});
  }
  root["model"]["vocab"] = std::move(vocab);
  if (is_word_piece(document)) return root;
  nlohmann::ordered_json merges = nlohmann::ordered_json::array();
  // Written as one text, which tokenizers of all versions read; 0.20 introduced pairs. No token of a byte-level
  // alphabet contains a blank.
  const auto has_blank = [](const Merge& merge) { return (merge.left + merge.right).find(' ') != std::string::npos; };
  const bool as_pairs = std::any_of(document.merges.begin(), document.merges.end(), has_blank);
  for (const Merge& merge : document.merges) {
    if (as_pairs) {
      merges.push_back({merge.left, merge.right});
    } else {
      merges.push_back(merge.left + " " + merge.right);
    }
  }
  root["model"]["merges"] = std::move(merges);
  return root;
}

}  // namespace lockstep::text
