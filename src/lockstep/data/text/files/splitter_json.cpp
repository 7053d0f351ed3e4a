// The meaning of "normalizer" and "pre_tokenizer" in the tokenizer.json of a byte-level BPE that is not GPT-2's.
#include "lockstep/data/text/files/splitter_json.h"

#include <cctype>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/data/text/files/json_fields.h"

namespace lockstep::text {
namespace {

using nlohmann::json;

Error unsupported_split(const std::string& what, const std::string& where) {
  return Error("not supported: " + what, where,
               "use a tokenizer whose pre-tokenizer is ByteLevel, after Split and Digits if needed");
}

/// The parts of a Sequence, or the one part that is declared.
std::vector<json> parts_of(const json& declared, const char* list) {
  if (!declared.is_object() || declared.value("type", json()) != "Sequence") return {declared};
  const auto found = declared.find(list);
  return found != declared.end() && found->is_array() ? found->get<std::vector<json>>() : std::vector<json>{};
}

bool declared_nfc(const TokenizerDocument& document) {
  const auto found = document.json.find("normalizer");
  if (found == document.json.end() || found->is_null()) return false;
  bool normalizes = false;
  for (const json& part : parts_of(*found, "normalizers")) {
    if (part != json{{"type", "NFC"}}) {
      throw unsupported_split("a normalizer before byte-level BPE: " + show_json(part),
                              document.where + ": normalizer");
    }
    normalizes = true;
  }
  return normalizes;
}

std::string escaped_text(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (c > 0 && c < 0x7F && std::isalnum(static_cast<unsigned char>(c)) == 0) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

void add_split(JsonFields& fields, TextSplitter& splitter) {
  const json& declared = fields.require("pattern");
  JsonFields kind(declared, fields.place("pattern"));
  const auto regex = kind.text("Regex");
  const auto plain = kind.text("String");
  kind.finish();
  if (regex.has_value() == plain.has_value()) throw unsupported_split(show_json(declared), kind.where());
  const std::string behavior = fields.text("behavior", "");
  const bool is_inverted = fields.flag("invert", false);
  const bool drops_rest = behavior == "Removed" && is_inverted;
  if (behavior != "Isolated" && !drops_rest) {
    throw unsupported_split("the behavior \"" + behavior + "\"", fields.place("behavior"));
  }
  const std::string pattern = regex ? *regex : escaped_text(*plain);
  splitter.add_pattern(std::make_shared<const SplitPattern>(pattern, kind.where()), drops_rest);
}

void add_digits(JsonFields& fields, TextSplitter& splitter) {
  const std::string pattern = std::string(kDigitPattern) + (fields.flag("individual_digits", false) ? "" : "+");
  splitter.add_pattern(std::make_shared<const SplitPattern>(pattern, fields.where()), false);
}

void add_byte_level(JsonFields& fields, TextSplitter& splitter) {
  if (fields.flag("add_prefix_space", true)) {
    throw unsupported_split("a blank before each piece of a text", fields.place("add_prefix_space"));
  }
  fields.skip({"trim_offsets"});  // matters in the post-processor only
  if (fields.flag("use_regex", true)) splitter.add_gpt2();
}

}  // namespace

std::optional<SplitOptions> declared_split(const TokenizerDocument& document) {
  const auto declared = document.json.find("pre_tokenizer");
  const std::string where = document.where + ": pre_tokenizer";
  if (declared == document.json.end() || declared->is_null()) {
    throw unsupported_split("BPE without the pre-tokenizer ByteLevel", where);
  }
  SplitOptions options;
  options.normalizes_nfc = declared_nfc(document);
  const std::vector<json> parts = parts_of(*declared, "pretokenizers");
  const bool is_plain = parts.size() == 1 && parts[0].is_object() && parts[0].value("type", json()) == "ByteLevel" &&
                        parts[0].value("use_regex", json(true)) != false;
  if (is_plain && !options.normalizes_nfc) return std::nullopt;
  bool ends = false;
  for (const json& part : parts) {
    JsonFields fields(part, where);
    const std::string type = fields.text("type", "");
    if (ends) throw unsupported_split("the pre-tokenizer \"" + type + "\" behind ByteLevel", where);
    if (type == "Split") {
      add_split(fields, options.splitter);
    } else if (type == "Digits") {
      add_digits(fields, options.splitter);
    } else if (type == "ByteLevel") {
      add_byte_level(fields, options.splitter);
      ends = true;
    } else {
      throw unsupported_split("the pre-tokenizer \"" + type + "\" with BPE", where);
    }
    fields.finish();
  }
  if (!ends) throw unsupported_split("BPE without the pre-tokenizer ByteLevel", where);
  return options;
}

}  // namespace lockstep::text
