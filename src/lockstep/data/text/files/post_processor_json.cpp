// The meaning of "post_processor" in tokenizer.json.
#include "lockstep/base/error.h"
#include "lockstep/data/text/files/json_fields.h"
#include "lockstep/data/text/files/json_file.h"
#include "lockstep/data/text/files/tokenizer_document.h"

namespace lockstep::text {
namespace {

Error unsupported_processor(const std::string& what, const std::string& where) {
  return Error("not supported: " + what, where,
               "use a post-processor of the type TemplateProcessing, BertProcessing, RobertaProcessing or ByteLevel");
}

TokenId require_token(const TokenizerDocument& document, const std::string& token, const std::string& where) {
  if (const auto id = find_token(document, token)) return *id;
  throw Error("the vocabulary lacks the token '" + token + "'", where, "take all files from the same tokenizer");
}

/// ["[SEP]", 102], as in BertProcessing and RobertaProcessing.
TokenId token_and_id(const TokenizerDocument& document, JsonFields& fields, const std::string& name) {
  const nlohmann::json& value = fields.require(name);
  if (!value.is_array() || value.size() != 2 || !value[0].is_string()) {
    throw Error("expected [\"TOKEN\", NUMBER], but it says " + show_json(value), fields.place(name),
                "correct the file");
  }
  const TokenId id = json_id(value[1], fields.place(name));
  if (id != require_token(document, value[0].get<std::string>(), fields.place(name))) {
    throw Error("token and number do not belong together: " + show_json(value), fields.place(name),
                "take all files from the same tokenizer");
  }
  return id;
}

std::vector<TokenId> template_token(const TokenizerDocument& document, const nlohmann::json& special_tokens,
                                    const std::string& name, const std::string& where) {
  const auto found = special_tokens.find(name);
  if (found == special_tokens.end())
    throw Error("the special token '" + name + "' is not declared", where, "correct the file");
  JsonFields fields(*found, where + ".special_tokens." + name);
  fields.skip({"id"});
  const nlohmann::json& ids = fields.require("ids");
  const nlohmann::json& tokens = fields.require("tokens");
  fields.finish();
  if (!ids.is_array() || !tokens.is_array() || ids.size() != tokens.size()) {
    throw Error("ids and tokens are not lists of the same length", fields.where(), "correct the file");
  }
  std::vector<TokenId> result;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    result.push_back(json_id(ids[i], fields.place("ids")));
    if (!tokens[i].is_string() || find_token(document, tokens[i].get<std::string>()) != result.back()) {
      throw Error("token " + show_json(tokens[i]) + " does not have the number " + std::to_string(result.back()),
                  fields.where(), "take all files from the same tokenizer");
    }
  }
  return result;
}

std::vector<TemplatePiece> template_pieces(const TokenizerDocument& document, const nlohmann::json& pieces,
                                           const nlohmann::json& special_tokens, bool is_pair,
                                           const std::string& where) {
  if (!pieces.is_array()) throw Error("expected a list, but it says " + show_json(pieces), where, "correct the file");
  std::vector<TemplatePiece> result;
  int texts[2] = {0, 0};
  for (const nlohmann::json& piece : pieces) {
    JsonFields fields(piece, where);
    const nlohmann::json* sequence = fields.find("Sequence");
    const nlohmann::json* special = fields.find("SpecialToken");
    fields.finish();
    if ((sequence != nullptr) == (special != nullptr)) throw unsupported_processor(show_json(piece), where);
    JsonFields body(sequence != nullptr ? *sequence : *special, where);
    const std::string id = body.text("id", "");
    const auto type_id = static_cast<std::int32_t>(body.number("type_id", 0));
    body.finish();
    if (special != nullptr) {
      result.push_back({TemplatePiece::Kind::Special, type_id, template_token(document, special_tokens, id, where)});
    } else if (id == "A" || (id == "B" && is_pair)) {
      ++texts[id == "B"];
      result.push_back({id == "A" ? TemplatePiece::Kind::First : TemplatePiece::Kind::Second, type_id, {}});
    } else {
      throw unsupported_processor("the sequence \"" + id + "\"", where);
    }
  }
  if (texts[0] != 1 || texts[1] != (is_pair ? 1 : 0))
    throw unsupported_processor("a template in which a text does not occur exactly once", where);
  return result;
}

PostProcessor template_processing(const TokenizerDocument& document, JsonFields& fields) {
  PostProcessor result;
  const nlohmann::json& special = fields.require("special_tokens");
  if (!special.is_object())
    throw Error("expected an object, but it says " + show_json(special), fields.place("special_tokens"),
                "correct the file");
  result.single = template_pieces(document, fields.require("single"), special, false, fields.place("single"));
  result.pair = template_pieces(document, fields.require("pair"), special, true, fields.place("pair"));
  return result;
}

/// How a pair's second text follows the first one's separator.
struct SecondText {
  std::int32_t type_id;
  bool has_own_separator;  // before it, as RoBERTa's </s></s>
};

/// [CLS] A [SEP], and for a pair B [SEP] behind it.
PostProcessor between_cls_and_sep(const TokenizerDocument& document, JsonFields& fields, const SecondText& second) {
  using Kind = TemplatePiece::Kind;
  const TokenId sep = token_and_id(document, fields, "sep");
  const TokenId cls = token_and_id(document, fields, "cls");
  const TemplatePiece separator{Kind::Special, second.type_id, {sep}};
  PostProcessor result;
  result.single = {{Kind::Special, 0, {cls}}, {Kind::First, 0, {}}, {Kind::Special, 0, {sep}}};
  result.pair = result.single;
  if (second.has_own_separator) result.pair.push_back(separator);
  result.pair.insert(result.pair.end(), {{Kind::Second, second.type_id, {}}, separator});
  return result;
}

PostProcessor bert_processing(const TokenizerDocument& document, JsonFields& fields) {
  return between_cls_and_sep(document, fields, {1, false});
}

PostProcessor roberta_processing(const TokenizerDocument& document, JsonFields& fields) {
  PostProcessor result = between_cls_and_sep(document, fields, {0, true});
  result.trim_offsets = fields.flag("trim_offsets", true);
  result.add_prefix_space = fields.flag("add_prefix_space", true);
  return result;
}

/// @param declared  an object that says its type
PostProcessor processor_of(const TokenizerDocument& document, const nlohmann::json& declared,
                           const std::string& where) {
  JsonFields fields(declared, where);
  const std::string type = fields.text("type", "");
  PostProcessor result;
  if (type == "TemplateProcessing") {
    result = template_processing(document, fields);
  } else if (type == "BertProcessing") {
    result = bert_processing(document, fields);
  } else if (type == "RobertaProcessing") {
    result = roberta_processing(document, fields);
  } else if (type == "ByteLevel") {
    result.trim_offsets = fields.flag("trim_offsets", true);
    result.add_prefix_space = fields.flag("add_prefix_space", true);
    fields.skip({"use_regex"});  // matters in the pre-tokenizer only
  } else {
    throw unsupported_processor("the post-processor \"" + type + "\"", fields.where());
  }
  fields.finish();
  return result;
}

/// [ByteLevel, TemplateProcessing], as of Llama 3: the first trims offsets, the second puts tokens around texts.
PostProcessor sequence_of_processors(const TokenizerDocument& document, const nlohmann::json& declared,
                                     const std::string& where) {
  JsonFields fields(declared, where);
  fields.skip({"type"});
  const nlohmann::json& parts = fields.require("processors");
  fields.finish();
  const auto has_type = [&](std::size_t i, const char* type) {
    return parts[i].is_object() && parts[i].value("type", nlohmann::json()) == type;
  };
  if (!parts.is_array() || parts.size() != 2 || !has_type(0, "ByteLevel") || !has_type(1, "TemplateProcessing")) {
    throw unsupported_processor("a sequence other than ByteLevel and TemplateProcessing", where);
  }
  const PostProcessor trims = processor_of(document, parts[0], where);
  PostProcessor result = processor_of(document, parts[1], where);
  result.trim_offsets = trims.trim_offsets;
  result.add_prefix_space = trims.add_prefix_space;
  return result;
}

}  // namespace

PostProcessor post_processor(const TokenizerDocument& document) {
  const auto found = document.json.find("post_processor");
  if (found == document.json.end() || found->is_null()) return {};
  const std::string where = document.where + ": post_processor";
  const bool is_sequence = found->is_object() && found->value("type", nlohmann::json()) == "Sequence";
  return is_sequence ? sequence_of_processors(document, *found, where) : processor_of(document, *found, where);
}

}  // namespace lockstep::text
