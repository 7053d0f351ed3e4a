// The meaning of the parts of tokenizer.json.
#include "lockstep/base/error.h"
#include "lockstep/data/text/files/json_fields.h"
#include "lockstep/data/text/files/json_file.h"
#include "lockstep/data/text/files/tokenizer_document.h"

namespace lockstep::text {
namespace {

Error unsupported(const std::string& what, const std::string& where) {
  return Error(
      "not supported: " + what, where,
      "use a tokenizer like BERT's (WordPiece) or GPT-2's and RoBERTa's (byte-level BPE), as the models here do");
}

/// The part `name` of the document; null if it is missing or null.
const nlohmann::json* part(const TokenizerDocument& document, const std::string& name) {
  const auto found = document.json.find(name);
  return found == document.json.end() || found->is_null() ? nullptr : &*found;
}

std::string place(const TokenizerDocument& document, const std::string& name) { return document.where + ": " + name; }

void require_unknown_token(const TokenizerDocument& document, const std::string& token) {
  if (document.vocabulary.find(token)) return;
  throw Error("the vocabulary lacks the unknown token '" + token + "'", place(document, "model.unk_token"),
              "name the unknown token that the vocabulary has, or download the file again");
}

/// Whether the part `name` is of the type `type`, or a sequence of parts one of which is.
bool has_type(const TokenizerDocument& document, const std::string& name, const std::string& type) {
  const nlohmann::json* declared = part(document, name);
  if (declared == nullptr || !declared->is_object()) return false;
  if (declared->value("type", nlohmann::json()) == type) return true;
  for (const char* list : {"pretokenizers", "normalizers"}) {
    const auto parts = declared->find(list);
    if (parts == declared->end() || !parts->is_array()) continue;
    for (const nlohmann::json& one : *parts) {
      if (one.is_object() && one.value("type", nlohmann::json()) == type) return true;
    }
  }
  return false;
}

/// BPE has relatives that are not byte-level, or that cut texts by another pattern. Their names say more than the first
/// field that is not supported.
void refuse_relatives_of_bpe(const TokenizerDocument& document) {
  const nlohmann::json& model = *part(document, "model");
  if (model.value("byte_fallback", nlohmann::json()) == true) {
    throw unsupported("SentencePiece's BPE, as of Llama 2 and Mistral", place(document, "model.byte_fallback"));
  }
  if (has_type(document, "pre_tokenizer", "Metaspace") || has_type(document, "normalizer", "Prepend")) {
    throw unsupported("SentencePiece's BPE, as of Llama 2 and Mistral", document.where);
  }
}

SequenceSide direction(JsonFields& fields, const std::string& name) {
  const std::string text = fields.text(name, "Right");
  if (text == "Right") return SequenceSide::Right;
  if (text == "Left") return SequenceSide::Left;
  throw unsupported("the side \"" + text + "\"", fields.place(name));
}

}  // namespace

std::optional<TokenId> find_token(const TokenizerDocument& document, const std::string& name) {
  for (const AddedToken& token : document.added_tokens) {
    if (token.content == name) return token.id;
  }
  return document.vocabulary.find(name);
}

bool is_word_piece(const TokenizerDocument& document) {
  const nlohmann::json* model = part(document, "model");
  if (model == nullptr || !model->is_object()) {
    throw Error("the field \"model\" is missing", document.where, "download the file again");
  }
  const auto type = model->find("type");
  if (type == model->end()) return model->contains("max_input_chars_per_word");  // files before 2021 name no type
  if (*type == "WordPiece") return true;
  if (*type == "BPE") return false;
  const bool is_sentence_piece = *type == "Unigram";
  throw unsupported("the model " + show_json(*type) + (is_sentence_piece ? ", as of T5, ALBERT and XLM-RoBERTa" : ""),
                    place(document, "model.type"));
}

WordPieceOptions word_piece_options(const TokenizerDocument& document) {
  JsonFields fields(*part(document, "model"), place(document, "model"));
  fields.skip({"type"});
  WordPieceOptions options;
  options.unk_token = fields.text("unk_token", options.unk_token);
  require_unknown_token(document, options.unk_token);
  options.continuing_subword_prefix = fields.text("continuing_subword_prefix", options.continuing_subword_prefix);
  options.max_input_chars_per_word = fields.number("max_input_chars_per_word", options.max_input_chars_per_word);
  fields.finish();
  return options;
}

BytePairOptions byte_pair_options(const TokenizerDocument& document) {
  refuse_relatives_of_bpe(document);
  JsonFields fields(*part(document, "model"), place(document, "model"));
  fields.skip({"type"});
  BytePairOptions options;
  options.unk_token = fields.text("unk_token");
  if (options.unk_token) require_unknown_token(document, *options.unk_token);
  options.fuse_unk = fields.flag("fuse_unk", false);
  fields.only("dropout", 0.0);
  fields.only("continuing_subword_prefix", "");
  fields.only("end_of_word_suffix", "");
  fields.only("byte_fallback", false);
  options.ignore_merges = fields.flag("ignore_merges", false);
  fields.finish();
  return options;
}

BertNormalizerOptions normalizer_options(const TokenizerDocument& document) {
  const nlohmann::json* cutter = part(document, "pre_tokenizer");
  if (cutter == nullptr || *cutter != nlohmann::json{{"type", "BertPreTokenizer"}}) {
    throw unsupported("WordPiece with the pre-tokenizer " + (cutter == nullptr ? "null" : show_json(*cutter)),
                      place(document, "pre_tokenizer"));
  }
  const nlohmann::json* normalizer = part(document, "normalizer");
  if (normalizer == nullptr) return {false, false, false, false};
  JsonFields fields(*normalizer, place(document, "normalizer"));
  const std::string type = fields.text("type", "");
  if (type != "BertNormalizer") throw unsupported("the normalizer \"" + type + "\"", fields.where());
  BertNormalizerOptions options;
  options.clean_text = fields.flag("clean_text", true);
  options.handle_chinese_chars = fields.flag("handle_chinese_chars", true);
  options.strip_accents = fields.flag("strip_accents");
  options.lowercase = fields.flag("lowercase", true);
  fields.finish();
  return options;
}

ByteLevelOptions byte_level_options(const TokenizerDocument& document) {
  const nlohmann::json* cutter = part(document, "pre_tokenizer");
  if (cutter != nullptr && cutter->is_object() && cutter->value("type", nlohmann::json()) == "Sequence") {
    const auto parts = cutter->find("pretokenizers");
    if (parts != cutter->end() && parts->is_array() && parts->size() == 1) cutter = &parts->front();
  }
  if (cutter == nullptr) throw unsupported("BPE without the pre-tokenizer ByteLevel", place(document, "pre_tokenizer"));
  JsonFields fields(*cutter, place(document, "pre_tokenizer"));
  fields.skip({"type", "trim_offsets", "use_regex"});  // see declared_split; the second matters later only
  ByteLevelOptions options;
  options.add_prefix_space = fields.flag("add_prefix_space", true);
  fields.finish();
  return options;
}

TokenDecoder token_decoder(const TokenizerDocument& document) {
  const nlohmann::json* decoder = part(document, "decoder");
  TokenDecoder result;
  if (decoder == nullptr) return result;
  JsonFields fields(*decoder, place(document, "decoder"));
  const std::string type = fields.text("type", "");
  if (type == "WordPiece") {
    result.kind = TokenDecoder::Kind::WordPiece;
    result.prefix = fields.text("prefix", result.prefix);
    result.cleanup = fields.flag("cleanup", true);
  } else if (type == "ByteLevel") {
    result.kind = TokenDecoder::Kind::ByteLevel;
    fields.skip({"add_prefix_space", "trim_offsets", "use_regex"});  // matter elsewhere only
  } else {
    throw unsupported("the decoder \"" + type + "\"", fields.where());
  }
  fields.finish();
  return result;
}

std::optional<Truncation> declared_truncation(const TokenizerDocument& document) {
  const nlohmann::json* declared = part(document, "truncation");
  if (declared == nullptr) return std::nullopt;
  JsonFields fields(*declared, place(document, "truncation"));
  Truncation result;
  result.max_length = fields.number("max_length", result.max_length);
  result.side = direction(fields, "direction");
  fields.only("stride", 0);
  const std::string strategy = fields.text("strategy", "LongestFirst");
  if (strategy == "OnlyFirst") {
    result.strategy = TruncationStrategy::OnlyFirst;
  } else if (strategy == "OnlySecond") {
    result.strategy = TruncationStrategy::OnlySecond;
  } else if (strategy != "LongestFirst") {
    throw unsupported("the strategy \"" + strategy + "\"", fields.place("strategy"));
  }
  fields.finish();
  return result;
}

std::optional<DeclaredPadding> declared_padding(const TokenizerDocument& document) {
  const nlohmann::json* declared = part(document, "padding");
  if (declared == nullptr) return std::nullopt;
  JsonFields fields(*declared, place(document, "padding"));
  DeclaredPadding result;
  const nlohmann::json& strategy = fields.require("strategy");
  if (strategy.is_object()) {
    JsonFields fixed(strategy, fields.place("strategy"));
    result.padding.mode = PaddingMode::MaxLength;
    fixed.require("Fixed");
    result.padding.max_length = fixed.number("Fixed", 0);
    fixed.finish();
  } else if (strategy != "BatchLongest") {
    throw unsupported("the strategy " + show_json(strategy), fields.place("strategy"));
  }
  result.padding.side = direction(fields, "direction");
  result.padding.multiple_of = fields.number("pad_to_multiple_of", 0);
  result.token.id = json_id(fields.require("pad_id"), fields.place("pad_id"));
  result.token.type_id = static_cast<std::int32_t>(fields.number("pad_type_id", 0));
  const std::string token = fields.text("pad_token", "");
  fields.finish();
  if (find_token(document, token) != result.token.id) {
    throw Error("the padding token '" + token + "' does not have the number " + std::to_string(result.token.id),
                fields.where(), "take all files from the same tokenizer");
  }
  return result;
}

}  // namespace lockstep::text
