// JSON Lines, and arrays of objects, as rows of texts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_problem.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "lockstep/data/texts/indexed_texts.h"
#include "lockstep/data/texts/json_object_scan.h"
#include "lockstep/data/texts/json_records.h"
#include "lockstep/data/texts/label_columns.h"
#include "lockstep/data/texts/number_label.h"

namespace lockstep {
namespace {

constexpr const char* kByRows =
    "name a field with texts; if the file is organised by columns, as pandas' to_json writes by default, write rows: "
    "df.to_json(FILE, orient=\"records\", lines=True)";

constexpr const char* kByTemplate =
    "chat templates are not applied: write each conversation as one text, in Python by "
    "tokenizer.apply_chat_template(messages, tokenize=False)";

// A field of messages with roles, as chats are written.
bool is_conversation(const std::string& name) { return name == "messages" || name == "conversations"; }

const char* kind_name(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::Null:
      return "null";
    case JsonValue::Kind::Text:
      return "a text";
    case JsonValue::Kind::Number:
      return "a number";
    case JsonValue::Kind::Boolean:
      return "a boolean";
    case JsonValue::Kind::Composite:
      return "an object or array";
    default:
      return "missing";
  }
}

/// Reads the values of some keys from one JSON object: quickly, or with the full parser. The full parser builds nothing
/// else and does not recurse, so any depth is allowed.
class JsonObjectPicker : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonObjectPicker(const std::vector<std::string>& keys)
      : keys_(keys), values_(keys.size()), texts_(keys.size()) {}

  /// @param behind  bytes behind the line that may be read
  /// @return  false if only the full parser can tell what the line is: it may even be invalid UTF-8
  bool scan(std::string_view line, std::size_t behind) { return scan_.scan(line, behind, keys_, values_); }

  /// @param line  valid UTF-8. @param where  returns the location of a column, counted from 1
  /// @throws Error  if `line` is not a JSON object
  template <typename Where>
  void parse(std::string_view line, const Where& where) {
    std::fill(values_.begin(), values_.end(), JsonValue{});
    names_.clear();
    depth_ = 0;
    key_ = keys_.size();
    list_ = nullptr;
    bad_column_.reset();
    if (nlohmann::json::sax_parse(line.begin(), line.end(), this)) {
      if (is_object_) return;
      throw Error("the line is JSON, but not an object", where(1), "give one object per line, as {\"text\": \"…\"}");
    }
    throw Error("not valid JSON: " + message_, where(bad_column_.value_or(1)),
                "give one object per line; write \\n for a line break in a text");
  }

  const JsonValue& value(std::size_t key) const { return values_[key]; }
  /// All keys of the object; known if a requested one is missing.
  const std::vector<std::string>& names() const { return names_; }

  bool null() override { return take(JsonValue::Kind::Null, depth_ == 2 ? "null" : ""); }
  bool boolean(bool value) override { return take(JsonValue::Kind::Boolean, value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { return take(JsonValue::Kind::Number, std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) override { return take(JsonValue::Kind::Number, std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return take(JsonValue::Kind::Number, text); }
  bool string(std::string& value) override { return take(JsonValue::Kind::Text, std::move(value)); }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return start(true); }
  bool start_array(std::size_t) override { return start(false); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    key_ = static_cast<std::size_t>(std::find(keys_.begin(), keys_.end(), name) - keys_.begin());
    names_.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    bad_column_ = std::max<std::size_t>(position, 1);
    message_ = json_problem(error);
    return false;
  }

 private:
  bool take(JsonValue::Kind kind, std::string text) {
    if (depth_ == 0) is_object_ = false;
    if (depth_ == 1 && key_ < values_.size()) {
      texts_[key_] = std::move(text);
      values_[key_] = {kind, texts_[key_]};
    } else if (depth_ == 2 && list_.is_array()) {
      list_.push_back(kind == JsonValue::Kind::Text ? nlohmann::json(std::move(text))
                                                    : nlohmann::json::parse(text, nullptr, false));
    }
    return true;
  }
  bool start(bool object) {
    take(JsonValue::Kind::Composite, "null");
    if (depth_ == 0) is_object_ = object;
    if (depth_ == 1 && !object && key_ < values_.size()) list_ = nlohmann::json::array();
    ++depth_;
    return true;
  }
  bool end() {
    --depth_;
    if (depth_ == 1 && list_.is_array()) {
      take(JsonValue::Kind::Composite, list_.dump());
      list_ = nullptr;
    }
    return true;
  }

  const std::vector<std::string>& keys_;
  JsonObjectScan scan_;
  std::vector<JsonValue> values_;
  std::vector<std::string> texts_;  // of the values that the full parser found
  nlohmann::json list_;             // the requested value that is being read, if it is a list
  std::vector<std::string> names_;
  std::size_t key_ = 0;
  int depth_ = 0;
  bool is_object_ = false;
  std::optional<std::size_t> bad_column_;
  std::string message_;
};

class JsonTexts : public IndexedTexts {
 public:
  JsonTexts(const std::string& path, const TextFileOptions& options, JsonLayout layout)
      : IndexedTexts(path, options, layout == JsonLayout::Lines ? "json lines" : "json array"),
        layout_(layout),
        keys_(options.texts) {
    TextRowChecks checks(options, path);
    if (!options.label.empty()) keys_.push_back(options.label);
    keys_.insert(keys_.end(), options.label_columns.begin(), options.label_columns.end());
    find_rows(options, checks);
    set_rows(checks);
    keys_.resize(options.texts.size());
  }

 private:
  void find_rows(const TextFileOptions& options, TextRowChecks& checks) const {
    const std::string_view file = view();  // once: it asks the system for the file's size
    JsonObjectPicker picker(keys_);
    LabelColumns sets(options.label_columns);
    JsonRecords records(file, layout_, path());
    while (records.next()) {
      const std::size_t behind = file.size() - records.begin() - records.record().size();
      if (!picker.scan(records.record(), behind)) parse_unusual(records, picker, checks);
      check_texts(options, picker, records.line(), checks);
      if (!options.label.empty()) check_label(options, picker, records.line(), checks);
      if (!options.label_columns.empty()) check_label_columns(options, picker, records.line(), sets, checks);
      checks.end_row(records.begin());
    }
  }

  static void parse_unusual(const JsonRecords& records, JsonObjectPicker& picker, TextRowChecks& checks) {
    const auto where = [&](std::size_t column) { return records.where(column); };
    const std::string_view line = records.record();
    const std::optional<std::size_t> bad = text::find_invalid_utf8(line);
    if (!bad) return picker.parse(line, where);
    checks.invalid_bytes(fmt::format("byte {} of the line is not UTF-8", *bad + 1), [&] { return where(*bad + 1); });
    picker.parse(text::replace_invalid_utf8(line), where);
  }

  void check_texts(const TextFileOptions& options, const JsonObjectPicker& picker, std::int64_t line_number,
                   TextRowChecks& checks) const {
    for (std::size_t i = 0; i < options.texts.size(); ++i) {
      const auto where = [&] { return where_field(line_number, options.texts[i]); };
      const JsonValue& value = picker.value(i);
      refuse_missing(options.texts[i], value, picker, line_number);
      if (value.kind != JsonValue::Kind::Text && value.kind != JsonValue::Kind::Null) {
        const bool is_composite = value.kind == JsonValue::Kind::Composite;
        throw Error(fmt::format("the value of \"{}\" is {}, not a string", options.texts[i], kind_name(value.kind)),
                    where(),
                    !is_composite                       ? "name a field with texts, or correct the file"
                    : is_conversation(options.texts[i]) ? kByTemplate
                                                        : kByRows);
      }
      checks.text(i, value.text, where);
    }
  }

  void check_label(const TextFileOptions& options, const JsonObjectPicker& picker, std::int64_t line_number,
                   TextRowChecks& checks) const {
    const auto where = [&] { return where_field(line_number, options.label); };
    const JsonValue& value = picker.value(options.texts.size());
    refuse_missing(options.label, value, picker, line_number);
    if (value.kind == JsonValue::Kind::Composite) {
      const bool is_list = !value.text.empty() && value.text.front() == '[';
      if (is_list && options.label_lists) return checks.label_set(value.text, where);
      throw Error(fmt::format("the label \"{}\" is an object or array", options.label), where(),
                  is_list ? "name a field with texts or numbers" : kByRows);
    }
    if (value.kind == JsonValue::Kind::Null) return checks.no_label(where);
    if (value.kind == JsonValue::Kind::Number && value.text.find_first_of(".eE") != std::string::npos) {
      return checks.label(number_label(value.text, options.label, options.fractions, where), where);
    }
    checks.label(value.text, where);
  }

  void check_label_columns(const TextFileOptions& options, const JsonObjectPicker& picker, std::int64_t line_number,
                           LabelColumns& sets, TextRowChecks& checks) const {
    for (std::size_t i = 0; i < options.label_columns.size(); ++i) {
      const std::string& name = options.label_columns[i];
      const JsonValue& value = picker.value(options.texts.size() + i);
      refuse_missing(name, value, picker, line_number);
      sets.add(i, value.text, [&] { return where_field(line_number, name); });
    }
    const auto where = [&] { return where_field(line_number, options.label_columns[0]); };
    checks.label_set(sets.take(), where);
  }

  std::string where_field(std::int64_t line_number, const std::string& field) const {
    return fmt::format("{}:{}, field \"{}\"", path(), line_number, field);
  }

  void refuse_missing(const std::string& name, const JsonValue& value, const JsonObjectPicker& picker,
                      std::int64_t line_number) const {
    if (value.kind != JsonValue::Kind::Missing) return;
    const std::string where = fmt::format("{}:{}", path(), line_number);
    const std::vector<std::string> first = names_of_first_object();
    if (std::find(first.begin(), first.end(), name) == first.end()) {
      const bool has_chat = std::any_of(first.begin(), first.end(), is_conversation);
      throw Error(no_such_column(name, picker.names()), where,
                  has_chat ? kByTemplate : "name one of them, or correct the line");
    }
    throw Error(no_such_field(name, picker.names(), first), where,
                "give each object this field, or remove the lines without it");
  }

  std::vector<std::string> names_of_first_object() const {
    JsonRecords records(view(), layout_, path());
    records.next();
    std::vector<std::string> names;
    const auto object = parsed_record(text::replace_invalid_utf8(records.record()), records.where(1));
    for (const auto& item : object.items()) names.push_back(item.key());
    return names;
  }

  std::vector<std::string> do_texts(std::uint64_t offset) const override {
    const std::string_view file = view();
    const std::string_view line = JsonRecords::record_at(file, offset, layout_);
    JsonObjectPicker picker(keys_);
    if (!picker.scan(line, file.size() - offset - line.size())) {
      const auto where = [&](std::size_t) { return path() + ", which changed while it was read"; };
      picker.parse(text::replace_invalid_utf8(line), where);
    }
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < keys_.size(); ++i) texts.emplace_back(picker.value(i).text);
    return texts;
  }

  JsonLayout layout_;
  std::vector<std::string> keys_;
};

}  // namespace

std::shared_ptr<const TextDataset> read_json_lines_texts(const std::string& path, const TextFileOptions& options) {
  return std::make_shared<JsonTexts>(path, options, JsonLayout::Lines);
}

std::shared_ptr<const TextDataset> read_json_texts(const std::string& path, const TextFileOptions& options) {
  const JsonLayout layout = json_layout(FileBytes::open_text(path).view());
  refuse_data_list(layout, path);
  if (layout == JsonLayout::Squad) return read_squad_texts(path, options);
  return std::make_shared<JsonTexts>(path, options, layout);
}

}  // namespace lockstep
