#include "tools/lockstep/predict/answers.h"

#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using OrderedJson = Answers::OrderedJson;

std::string json_line(const OrderedJson& answer) {
  return answer.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

// RFC 4180: quoted if it must be, with quotes doubled.
std::string field(const std::string& text, char delimiter) {
  if (text.find_first_of(std::string("\"\r\n") + delimiter) == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string text_of_value(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

using Fields = std::vector<std::pair<std::string, std::string>>;  // name and text

Fields fields_of(const OrderedJson& answer) {
  Fields fields;
  for (const auto& [name, value] : answer.items()) {
    if (!value.is_object()) {
      fields.emplace_back(name, text_of_value(value));
      continue;
    }
    for (const auto& [inner, number] : value.items()) fields.emplace_back(name + "." + inner, text_of_value(number));
  }
  return fields;
}

}  // namespace

Answers::Answers(const PredictFlags& flags, std::ostream& out) : json_(flags.json), out_(out) {
  if (flags.output_file.empty()) return;
  const std::string ending = std::filesystem::path(flags.output_file).extension().string();
  if (ending == ".csv") delimiter_ = ',';
  if (ending == ".tsv") delimiter_ = '\t';
  if (delimiter_ == 0 && ending != ".jsonl" && ending != ".ndjson") {
    throw UsageError("--output-file " + flags.output_file + " does not end in .csv, .tsv or .jsonl", "command line",
                     "name it .csv, .tsv or .jsonl");
  }
  if (delimiter_ != 0 && json_) {
    throw UsageError("--json cannot be combined with --output-file " + flags.output_file + ", which is a table",
                     "command line", "leave --json out, or name the file .jsonl");
  }
  file_ = std::make_unique<AtomicFile>(flags.output_file);
}

void Answers::add(const OrderedJson& answer, const std::string& line) {
  if (!file_) {
    out_ << (json_ ? json_line(answer) : line + "\n");
  } else if (delimiter_ == 0) {
    file_->write(json_line(answer));
  } else {
    add_row(answer);
  }
}

void Answers::add_row(const OrderedJson& answer) {
  const Fields fields = fields_of(answer);
  std::string row;
  if (columns_.empty()) {
    for (const auto& item : fields) {
      row += (columns_.empty() ? "" : std::string(1, delimiter_)) + field(item.first, delimiter_);
      columns_.push_back(item.first);
    }
    row += "\n";
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    row += (i == 0 ? "" : std::string(1, delimiter_)) + field(fields[i].second, delimiter_);
  }
  file_->write(row + "\n");
}

void Answers::flush() const {
  if (!file_) out_.flush();
}

void Answers::finish() {
  flush();
  if (file_) file_->commit();
}

}  // namespace lockstep
