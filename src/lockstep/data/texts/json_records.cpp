#include "lockstep/data/texts/json_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_problem.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/line_ends.h"
#include "lockstep/data/text_file.h"

namespace lockstep {
namespace {

constexpr const char* kJsonBlanks = " \t\r\n";

// Reads up to the first entry of a list "data", or to the end of the first object.
class LayoutFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool found_data() const { return found_data_; }
  bool found_other_keys() const { return has_keys_ && !has_paragraphs_; }

  bool null() override { return depth_ > 0; }
  bool boolean(bool) override { return depth_ > 0; }
  bool number_integer(std::int64_t) override { return depth_ > 0; }
  bool number_unsigned(std::uint64_t) override { return depth_ > 0; }
  bool number_float(double, const std::string&) override { return depth_ > 0; }
  bool string(std::string&) override { return depth_ > 0; }
  bool binary(nlohmann::json::binary_t&) override { return depth_ > 0; }
  bool start_object(std::size_t) override {
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    found_data_ = found_data_ || (depth_ == 1 && is_data_);
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_ > (found_data_ ? kDepthOfData : 0); }
  bool end_array() override { return --depth_ > (found_data_ ? kDepthOfData - 1 : 0); }
  bool key(std::string& name) override {
    if (depth_ == 1) is_data_ = name == "data";
    if (!found_data_ || depth_ != kDepthOfData + 1) return true;
    has_keys_ = true;
    has_paragraphs_ = name == "paragraphs";
    return !has_paragraphs_;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  static constexpr int kDepthOfData = 2;  // within the list

  int depth_ = 0;
  bool is_data_ = false;
  bool has_keys_ = false;
  bool has_paragraphs_ = false;
  bool found_data_ = false;
};

// The end of the object that begins at `begin`; the end of the file if it has none.
std::size_t end_of_object(std::string_view file, std::size_t begin) {
  std::int64_t depth = 0;
  for (std::size_t at = begin; (at = file.find_first_of("\"{}[]", at)) != std::string_view::npos; ++at) {
    const char c = file[at];
    if (c == '"') {
      at = file.find_first_of("\"\\", at + 1);
      while (at != std::string_view::npos && file[at] == '\\') at = file.find_first_of("\"\\", at + 2);
      if (at == std::string_view::npos) return file.size();
    } else {
      depth += c == '{' || c == '[' ? 1 : -1;
      if (depth == 0) return at + 1;
    }
  }
  return file.size();
}

}  // namespace

JsonLayout json_layout(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kJsonBlanks);
  if (first == std::string_view::npos) return JsonLayout::Lines;
  if (text[first] == '[') return JsonLayout::Array;
  LayoutFinder finder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &finder);
  if (!finder.found_data()) return JsonLayout::Lines;
  return finder.found_other_keys() ? JsonLayout::Data : JsonLayout::Squad;
}

void refuse_data_list(JsonLayout layout, const std::string& path) {
  if (layout != JsonLayout::Data) return;
  throw Error("the file is one object whose list \"data\" has the rows, but not in SQuAD's form", path,
              "write only the rows: jq -c '.data[]' FILE > data.jsonl");
}

nlohmann::ordered_json parsed_record(std::string_view text, const std::string& where) {
  const char* fix = "write one object per line, or an array of objects";
  try {
    auto object = nlohmann::ordered_json::parse(text);
    if (object.is_object()) return object;
  } catch (const nlohmann::ordered_json::exception& error) {
    throw Error("the first record is not a JSON object: " + json_problem(error), where, fix);
  }
  throw Error("the first record is not a JSON object", where, fix);
}

std::vector<std::string> columns_of_json(const std::string& path) {
  const FileBytes file = FileBytes::open_text(path);
  const JsonLayout layout = json_layout(file.view());
  refuse_data_list(layout, path);
  if (layout == JsonLayout::Squad) return squad_columns();
  JsonRecords records(file.view(), layout, path);
  if (!records.next()) throw Error("the file has no rows", path, "give a file with rows");
  const auto object = parsed_record(records.record(), records.where(1));
  std::vector<std::string> columns;
  for (const auto& item : object.items()) columns.push_back(item.key());
  file.require_whole();
  return columns;
}

JsonRecords::JsonRecords(std::string_view file, JsonLayout layout, std::string path)
    : file_(file), layout_(layout), path_(std::move(path)) {}

bool JsonRecords::next() {
  if (layout_ == JsonLayout::Array) return next_element();
  while (next_ < file_.size()) {
    move_to(next_);
    end_ = begin_ + record_at(file_, begin_, layout_).size();
    next_ = end_ + 1;
    if (record().find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
  return false;
}

bool JsonRecords::next_element() {
  const bool is_first = next_ == 0;
  std::size_t at = file_.find_first_not_of(kJsonBlanks, next_);
  const auto refuse = [&](const char* what) {
    move_to(std::min(at, file_.size()));
    throw Error(what, fmt::format("{}:{}", path_, line_), "write [{...}, {...}], or one object per line");
  };
  const char expected = is_first ? '[' : ',';
  const bool is_end = at < file_.size() && file_[at] == ']' && !is_first;
  if (!is_end) {
    if (at >= file_.size() || file_[at] != expected) refuse("the array of objects has no comma or no end here");
    at = file_.find_first_not_of(kJsonBlanks, at + 1);
  }
  if (at < file_.size() && file_[at] == ']' && (is_first || is_end)) {
    at = file_.find_first_not_of(kJsonBlanks, at + 1);
    if (at != std::string_view::npos) refuse("there is something after the array of objects");
    return false;
  }
  if (at >= file_.size() || file_[at] != '{') refuse("an element of the array is not an object");
  move_to(at);
  next_ = end_ = end_of_object(file_, begin_);
  return true;
}

void JsonRecords::move_to(std::size_t position) {
  begin_ = position;
  line_ += count_line_ends(file_.substr(counted_, begin_ - counted_));
  counted_ = begin_;
}

std::string JsonRecords::where(std::size_t byte) const {
  if (layout_ == JsonLayout::Lines) return fmt::format("{}:{}:{}", path_, line_, byte);
  return fmt::format("{}:{}, byte {} of the object", path_, line_, byte);
}

std::string_view JsonRecords::record_at(std::string_view file, std::size_t begin, JsonLayout layout) {
  const std::size_t end = layout == JsonLayout::Array ? end_of_object(file, begin) : file.find('\n', begin);
  return file.substr(begin, std::min(end, file.size()) - begin);
}

}  // namespace lockstep
