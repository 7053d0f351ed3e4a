#include "lockstep/data/csv/csv_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/files/line_ends.h"

namespace lockstep {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

}  // namespace

std::string_view CsvField::value(std::string& storage) const {
  if (doubled == '\0') return text;
  storage.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    storage += text[i];
    if (text[i] == doubled) ++i;
  }
  return storage;
}

CsvTokenizer::CsvTokenizer(std::string_view text, std::string path, CsvDialect dialect)
    : text_(text),
      path_(std::move(path)),
      dialect_(dialect_of_file(path_, dialect)),
      scan_(text, {dialect_.delimiter, dialect_.quote, dialect_.quote != '\0'}) {
  if (dialect_.delimiter == dialect_.quote || is_line_end(dialect_.delimiter) || is_line_end(dialect_.quote)) {
    throw Error(fmt::format("a CSV file cannot have delimiter {:?} and quote {:?}", dialect_.delimiter, dialect_.quote),
                path_, "give two different characters that are not line ends");
  }
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) position_ = kByteOrderMark.size();
}

bool CsvTokenizer::next(std::vector<CsvField>& fields) {
  while (position_ < text_.size() && is_line_end(text_[position_])) skip_line_end();
  fields.resize(std::max<std::size_t>(fields.size(), 1));
  if (position_ >= text_.size()) return false;
  record_begin_ = position_;
  record_line_ = line_;
  has_line_ends_ = false;
  std::size_t count = 0;
  for (;;) {
    if (count == fields.size()) fields.resize(2 * count);
    if (dialect_.quote != '\0' && position_ < text_.size() && text_[position_] == dialect_.quote) {
      fields[count++] = quoted_field();
    } else {
      count = plain_fields(fields, count);
    }
    if (position_ == text_.size()) break;
    if (text_[position_] != dialect_.delimiter) {
      skip_line_end();
      break;
    }
    ++position_;
  }
  fields.resize(count);
  return true;
}

std::size_t CsvTokenizer::plain_fields(std::vector<CsvField>& fields, std::size_t count) {
  // A local copy, because the compiler must assume that a store to a field changes a member.
  const char* const text = text_.data();
  const std::size_t size = text_.size();
  CsvField* out = fields.data();
  std::size_t room = fields.size();
  std::size_t begin = position_;
  for (std::size_t at = begin; at < size; at = (at / CsvScan::kBlockBytes + 1) * CsvScan::kBlockBytes) {
    const CsvBlock& block = scan_.block_at(at);
    const std::uint64_t ahead = ~std::uint64_t{0} << (at % CsvScan::kBlockBytes);
    const std::uint64_t stops = block.stops & ahead;
    // All ends up to and including the first stop, or all ends if there is no stop.
    std::uint64_t ends = block.ends & ahead & (stops ^ (stops - 1));
    if (stops == 0) ends = block.ends & ahead;
    const std::size_t block_begin = at / CsvScan::kBlockBytes * CsvScan::kBlockBytes;
    for (; ends != 0; ends &= ends - 1) {
      if (count == room) {
        fields.resize(room = 2 * room);
        out = fields.data();
      }
      const std::size_t end = block_begin + static_cast<std::size_t>(__builtin_ctzll(ends));
      out[count++] = {{text + begin, end - begin}, false, '\0'};
      begin = end + 1;
    }
    if (stops == 0) continue;
    position_ = begin - 1;
    return count;
  }
  // The text has no line end at its end.
  if (count == fields.size()) fields.resize(count + 1);
  fields[count] = {text_.substr(begin), false, '\0'};
  position_ = size;
  return count + 1;
}

CsvField CsvTokenizer::quoted_field() {
  const std::size_t open = position_;
  char doubled = '\0';
  std::size_t close = open + 1;
  for (;; close += 2) {
    close = text_.find(dialect_.quote, close);
    if (close == std::string_view::npos) {
      throw Error("a quoted field is never closed", where(open),
                  "close the quote; if quotes are plain characters in the file, as in GLUE's, give --quoting none (a "
                  "program: CsvDialect::quote = '\\0')");
    }
    if (close + 1 == text_.size() || text_[close + 1] != dialect_.quote) break;
    doubled = dialect_.quote;
  }
  position_ = close + 1;
  if (position_ < text_.size() && text_[position_] != dialect_.delimiter && !is_line_end(text_[position_])) {
    throw Error(fmt::format("a quoted field continues after its closing quote with {:?}",
                            text_.substr(position_, std::min<std::size_t>(8, text_.size() - position_))),
                where(position_),
                "double the quotes inside a quoted field; if quotes are plain characters in the file, as in GLUE's, "
                "give --quoting none (a program: CsvDialect::quote = '\\0')");
  }
  const std::string_view text = text_.substr(open + 1, close - open - 1);
  const std::int64_t line_ends = count_line_ends(text);
  line_ += line_ends;
  has_line_ends_ = has_line_ends_ || line_ends > 0;
  return {text, true, doubled};
}

void CsvTokenizer::skip_line_end() {
  if (text_[position_] == '\r' && position_ + 1 < text_.size() && text_[position_ + 1] == '\n') ++position_;
  ++position_;
  ++line_;
}

void CsvTokenizer::seek(std::size_t offset, std::int64_t line) {
  position_ = offset;
  line_ = line;
}

std::string CsvTokenizer::where(const CsvField& field) const {
  return where(static_cast<std::size_t>(field.text.data() - text_.data()) - (field.quoted ? 1 : 0));
}

std::string CsvTokenizer::where(std::size_t offset) const {
  const std::string_view before = text_.substr(record_begin_, offset - record_begin_);
  const std::size_t line_end = before.find_last_of("\r\n");
  const std::size_t column = line_end == std::string_view::npos ? before.size() : before.size() - line_end - 1;
  return fmt::format("{}:{}:{}", path_, record_line_ + count_line_ends(before), column + 1);
}

}  // namespace lockstep
