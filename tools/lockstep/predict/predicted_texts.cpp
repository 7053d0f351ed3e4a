// The texts that `lockstep predict` answers: lines of a file or of standard input, or the rows of a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <optional>
#include <streambuf>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text/text_line.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/format_ending.h"
#include "lockstep/data/files/text_encoding.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "lockstep/data/text_file.h"
#include "tools/lockstep/predict/prediction.h"
#include "tools/lockstep/train/text_columns.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";

// Refuses such text, as a training does: a tokenizer would make unknown tokens of it, and the answer would be useless.
void require_text(const std::string& line, const std::string& where) {
  const std::optional<std::size_t> bad = text::find_invalid_utf8(line);
  const std::size_t nul = line.find('\0');
  if (!bad && nul == std::string::npos) return;
  throw Error(
      bad ? fmt::format("byte {} of the line, {:#04x}, is not UTF-8", *bad + 1, static_cast<unsigned char>(line[*bad]))
          : fmt::format("byte {} of the line is NUL", nul + 1),
      where, "store the texts as UTF-8; iconv -f ENCODING -t UTF-8 FILE converts them");
}

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\f\v\r\n") == std::string::npos; }

PredictedText text_of_line(const std::string& line, const std::string& where) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos) return {line, std::nullopt, where};
  return {line.substr(0, tab), line.substr(tab + 1), where};
}

bool is_table(const PredictFlags& flags) {
  static const std::array<std::string, 7> endings{".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow"};
  if (!flags.text_columns.empty() || !flags.table.given().empty() || is_saved_dataset(flags.file)) return true;
  return std::find(endings.begin(), endings.end(), format_ending(flags.file)) != endings.end();
}

std::vector<std::string> text_columns(const PredictFlags& flags) {
  const std::string ending = format_ending(flags.file);
  try {
    return text_columns_of_file(flags.file, flags.text_columns, flags.table.form());
  } catch (const UsageError& error) {
    if (ending == ".json" || ending == ".parquet" || ending == ".arrow" || is_saved_dataset(flags.file)) throw;
    throw UsageError(error.happened(), flags.file,
                     error.fix() + "; if each line is a text, pass the file on standard input");
  }
}

/// Collects texts for `answer`, and passes over those that have none.
class Batches {
 public:
  Batches(const PredictFlags& flags, BlankTexts blank_texts, const AnswerTexts& answer, std::int64_t size)
      : source_(flags.file.empty() ? "standard input" : flags.file),
        blank_texts_(blank_texts),
        answer_(answer),
        size_(static_cast<std::size_t>(size)) {}

  void add(PredictedText text, const std::string& number) {
    if (blank_texts_ == BlankTexts::Skip && is_blank(text.text) && (!text.second || is_blank(*text.second))) {
      blank_.push_back(number);
      return;
    }
    texts_.push_back(std::move(text));
    if (texts_.size() == size_) pass_on();
  }

  /// Answers what is left, and warns of what had no answer: blank `items`, such as "line".
  void finish(const std::string& items) {
    if (!texts_.empty()) pass_on();
    if (blank_.empty()) return;
    constexpr std::size_t kShown = 10;
    const std::size_t shown = std::min(blank_.size(), kShown);
    log_warning("{}: passed over {} blank {}{}, which have no answer: {}{}", source_, blank_.size(), items,
                blank_.size() == 1 ? "" : "s",
                fmt::join(blank_.begin(), blank_.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                blank_.size() > shown ? ", …" : "");
  }

 private:
  void pass_on() {
    answer_(texts_);
    texts_.clear();
  }

  std::string source_;
  BlankTexts blank_texts_;
  const AnswerTexts& answer_;
  std::size_t size_;
  std::vector<PredictedText> texts_;
  std::vector<std::string> blank_;
};

void read_rows_of_table(const PredictFlags& flags, BlankTexts blank_texts, const AnswerTexts& answer) {
  if (flags.file.empty()) {
    throw UsageError("--text-column cannot be used with standard input, which has no columns", "command line",
                     "name the table: --file");
  }
  TextFileOptions options;
  set_form(flags.table.form(), flags.file, options);
  options.texts = text_columns(flags);
  if (options.texts.size() > 2) {
    throw UsageError(fmt::format("there are {} text columns", options.texts.size()), "--text-column",
                     "give one, or two for pairs");
  }
  options.empty_texts = RowPolicy::Keep;  // passed over below
  const auto rows = open_text_file(flags.file, options);
  Batches batches(flags, blank_texts, answer, flags.batch_size);
  for (std::int64_t i = 0; i < rows->size(); ++i) {
    TextRow row = rows->get(i);
    const std::string where = rows->where(i);
    PredictedText text{std::move(row.texts.front()), std::nullopt, where};
    if (row.texts.size() > 1) text.second = std::move(row.texts[1]);
    batches.add(std::move(text), where);
  }
  batches.finish("row");
}

// A stream's view of a file's content.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());  // read only: the buffer has no room to put anything
    setg(begin, begin, begin + text.size());
  }
};

void read_lines(const PredictFlags& flags, const CommandStreams& streams, BlankTexts blank_texts,
                const AnswerTexts& answer) {
  std::optional<FileBytes> file;  // a file on disk, as a training reads it: plain or gzip
  std::ifstream opened;
  if (!flags.file.empty()) {
    const std::string where = "--file " + flags.file;
    if (std::filesystem::is_directory(flags.file)) throw Error("it is a folder", where, "name a file of texts");
    opened.open(flags.file);
    if (!opened) throw Error("cannot open the file: " + errno_text(errno), where, "name a file of texts");
    if (std::filesystem::is_regular_file(flags.file)) file.emplace(FileBytes::open_text(flags.file));
  }
  ViewBuffer buffer(file ? file->view() : std::string_view());
  std::istream of_file(&buffer);
  std::istream& in = flags.file.empty() ? streams.in : file ? of_file : opened;
  const std::string source = flags.file.empty() ? "standard input" : flags.file;
  // A person who types waits for an answer to each line.
  const bool is_typed = flags.file.empty() && streams.in_is_terminal;
  Batches batches(flags, blank_texts, answer, is_typed ? 1 : flags.batch_size);
  std::int64_t number = 0;
  LineReader lines(in);
  for (std::string line; lines.next(line);) {
    if (++number == 1) refuse_wide_text(line, source);
    if (number == 1 && line.rfind(kByteOrderMark, 0) == 0) line.erase(0, std::strlen(kByteOrderMark));
    const std::string where = fmt::format("{}:{}", source, number);
    require_text(line, where);
    batches.add(text_of_line(line, where), std::to_string(number));
  }
  batches.finish("line");
  if (in.bad()) throw Error("cannot read it to its end: " + errno_text(errno), source, "check the file and its disk");
  if (number == 0) log_warning("{}: there are no texts", source);
}

}  // namespace

void read_texts(const PredictFlags& flags, const CommandStreams& streams, BlankTexts blank_texts,
                const AnswerTexts& answer) {
  if (is_table(flags)) {
    read_rows_of_table(flags, blank_texts, answer);
  } else {
    read_lines(flags, streams, blank_texts, answer);
  }
}

}  // namespace lockstep
