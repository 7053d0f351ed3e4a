#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/csv/csv_scan.h"
#include "lockstep/data/csv_dialect.h"

namespace lockstep {

/// One field, as a view into the text.
struct CsvField {
  std::string_view text;  ///< without the quotes around it
  bool quoted = false;    ///< was in quotes, and may contain delimiters and line ends
  char doubled = '\0';    ///< the quote character, if `text` contains it doubled; `value` makes it single

  /// The field's value. @param storage  holds the value if the view cannot
  std::string_view value(std::string& storage) const;
};

/// Splits a text into records and fields without copying (RFC 4180). Delimiters separate fields; a field that contains
/// delimiters, line ends or quotes is in quotes, with its quotes doubled. Lines end with LF, CRLF or CR. Lenient where
/// the RFC leaves a choice: empty lines are skipped, a quote inside a field that does not begin with one is a plain
/// character, a byte order mark at the start is skipped, and the last line needs no end.
class CsvTokenizer {
 public:
  /// @param text  must outlive the tokenizer and the fields
  /// @param path  named in errors
  /// @throws Error  if delimiter and quote are equal, or one is a line end
  CsvTokenizer(std::string_view text, std::string path, CsvDialect dialect = {});

  /// Reads the next record into `fields`, at least one. False at the end of the text.
  /// @throws Error  with file, line and column, if a quote is never closed, or text follows a closing quote
  bool next(std::vector<CsvField>& fields);

  /// The place at which `next` will continue: the byte at which a record or an empty line begins, and its line.
  std::size_t offset() const { return position_; }
  std::int64_t line() const { return line_; }
  /// The byte at which the last record begins.
  std::size_t record_offset() const { return record_begin_; }
  /// Whether the last record has a line end in a quoted field.
  bool has_line_ends() const { return has_line_ends_; }
  char delimiter() const { return dialect_.delimiter; }
  /// Continues at a place that `offset` and `line` returned.
  void seek(std::size_t offset, std::int64_t line);

  /// "path:line:column" of `field`, counted from 1, columns in bytes. The field must belong to the last record.
  std::string where(const CsvField& field) const;

 private:
  // Reads the field at `position_`, and leaves the position at the character that ends it.
  CsvField quoted_field();
  // Reads one or more plain fields in that way, into fields[count] and the following ones. Returns the number of
  // fields.
  std::size_t plain_fields(std::vector<CsvField>& fields, std::size_t count);
  void skip_line_end();
  std::string where(std::size_t offset) const;

  std::string_view text_;
  std::string path_;
  CsvDialect dialect_;
  CsvScan scan_;
  std::size_t position_ = 0;
  std::int64_t line_ = 1;
  std::size_t record_begin_ = 0;  // start of the last record
  std::int64_t record_line_ = 1;
  bool has_line_ends_ = false;
};

}  // namespace lockstep
