#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/csv_dialect.h"
#include "lockstep/data/text_dataset.h"

namespace lockstep {

/// The treatment of a row that cannot be used.
enum class RowPolicy {
  Refuse,  ///< an error with file and line
  Skip,    ///< the row is left out
  Keep     ///< the row stays as it is
};

/// Which columns of a file are read, and what becomes of them.
struct TextFileOptions {
  /// The columns with texts: one, or two for pairs of sentences. A column is a CSV column, a key of a JSON Lines
  /// object, or a name that the reader defines.
  std::vector<std::string> texts;
  std::string label;  ///< the column with the label; empty: the rows have no labels
  /// The label of each text (or number, written as in the file) in the label column. Empty: learned, in numeric order
  /// if all are numbers, else in order of the texts; give a second file the `labels()` of the first.
  std::map<std::string, std::int64_t> labels;
  std::int64_t num_labels = 0;  ///< of the model's head; higher labels are errors; 0: no limit
  bool fractions = false;       ///< JSON Lines: a number with a fraction may be a label, under its text; else an error

  RowPolicy unlisted_labels = RowPolicy::Refuse;  ///< rows whose label is not in `labels`; `Keep` is not allowed
  RowPolicy missing_labels = RowPolicy::Refuse;   ///< rows whose label is blank or null; `Keep` is not allowed
  RowPolicy empty_texts = RowPolicy::Refuse;      ///< rows with a text that is empty or only white space
  /// Rows with a text that contains a NUL or invalid UTF-8. If kept, the tokenizer reads such bytes as U+FFFD.
  RowPolicy invalid_texts = RowPolicy::Refuse;

  CsvDialect dialect{};                   ///< CSV and TSV: delimiter, if not the format's comma or tab, and quote
  std::vector<std::string> column_names;  ///< CSV without a header: the names of all columns; empty: has a header

  /// CSV, TSV, JSON Lines and Parquet: columns of 0 and 1 (or false and true), each for a label that a row may have
  /// beside others; in place of `label`. A row's label is the JSON list of the columns with 1: ["rude","threat"].
  std::vector<std::string> label_columns{};
  /// Plain text: a line keeps its end, as "\n". A blank line is an empty text all the same: see `empty_texts`.
  bool keep_line_ends = false;
  bool label_lists = false;  ///< JSON Lines: a list may be a label, under its JSON without blanks; else an error

  bool has_labels() const { return !label.empty() || !label_columns.empty(); }
};

/// Reads CSV (RFC 4180), plain or gzip. Empty lines are skipped, and so is a byte order mark; a quote within a field
/// that does not begin with one is a plain character. The file is mapped, and its rows are located and checked once.
/// After that 12 bytes per row are held, and rows are split again when they are read: files may be larger than memory.
/// Do not shorten a file while it is in use.
/// @throws Error  with file, line and column: if a quote is never closed or text follows a closing quote, a column does
/// not exist (lists the columns, with a suggestion), a record has more or fewer fields than columns, a policy refuses a
/// row, or no row is left; if delimiter and quote are equal, or one is a line end
std::shared_ptr<const TextDataset> read_csv_texts(const std::string& path, const TextFileOptions& options);

/// Reads tab-separated values like `read_csv_texts`. If quotes are plain characters, as in GLUE's files, set
/// `dialect.quote` to 0.
std::shared_ptr<const TextDataset> read_tsv_texts(const std::string& path, const TextFileOptions& options);

/// Reads JSON Lines, plain or gzip: one object per line, whose texts are strings and whose label is a string, a whole
/// number or a boolean. Lines with only white space are skipped. Mapped and indexed like `read_csv_texts`.
/// @throws Error  with file, line and column, if a line is not a JSON object, a key is missing, a value has another
/// type, a policy refuses a row, or no row is left
std::shared_ptr<const TextDataset> read_json_lines_texts(const std::string& path, const TextFileOptions& options);

/// Rows of plain text, one per line, plain or gzip: the only column is "text". Lines end with LF, CRLF or CR. Mapped
/// and indexed like `read_csv_texts`.
/// @throws Error  with file and line, if a policy refuses a row, or no row is left
std::shared_ptr<const TextDataset> read_text_lines(const std::string& path, TextFileOptions options = {});

/// Which rows a file in SQuAD's format makes.
enum class SquadRows {
  Questions,  ///< one per question, columns "id", "title", "context", "question"; contexts are repeated
  Contexts    ///< one per paragraph, columns "title", "context"
};

/// The columns of those rows.
const std::vector<std::string>& squad_columns(SquadRows rows = SquadRows::Questions);

/// Reads JSON in SQuAD's format (Rajpurkar et al., 2016, arXiv:1606.05250), plain or gzip: {"data": [{"title": …,
/// "paragraphs": [{"context": …, "qas": [{"id": …, "question": …}]}]}]}. Memory holds the texts, each once.
/// @throws Error  with file, line and column, if the text is not JSON; with the place in the document, if it has
/// another format; if a policy refuses a row, or no row is left
std::shared_ptr<const TextDataset> read_squad_texts(const std::string& path, const TextFileOptions& options,
                                                    SquadRows rows = SquadRows::Questions);

/// Reads a .json file by its content: one array of objects, or JSON Lines, as Hugging Face's datasets.load_dataset
/// reads them, with the rules of `read_json_lines_texts`; or one object with the list "data", as `read_squad_texts`.
std::shared_ptr<const TextDataset> read_json_texts(const std::string& path, const TextFileOptions& options);

/// Reads Parquet: columns that are not nested, compressed by Snappy, gzip or zstd. Text columns hold texts; a label is
/// a text, a number or a boolean. Null is an empty text, or no label. If Hugging Face's datasets wrote the label as a
/// ClassLabel, the labels are its names, in its order. The file is mapped, and its pages are decoded when they are
/// read; those read last are kept, up to 256 MiB.
/// @throws Error  with file and row, if the file is damaged, encrypted or written in a way that is not read, a column
/// is missing or has another type, a policy refuses a row, or no row is left
std::shared_ptr<const TextDataset> read_parquet_texts(const std::string& path, const TextFileOptions& options);
/// The number of rows and the columns of a file of columns.
struct TableSchema {
  std::int64_t rows = 0;
  std::vector<std::pair<std::string, std::string>> columns;  ///< names and types, in Arrow's terms: "list<string>"
};
/// @throws Error  if the file is not Parquet, or is encrypted or damaged
TableSchema read_parquet_schema(const std::string& path);

/// Reads Arrow's IPC format, as a file or a stream, with the rules of `read_parquet_texts`: compressed by zstd, or not.
/// @param path  a file, or a folder that Hugging Face's datasets wrote with save_to_disk: its files in order
/// @throws Error  as `read_parquet_texts`; for a folder with several splits, with their names
std::shared_ptr<const TextDataset> read_arrow_texts(const std::string& path, const TextFileOptions& options);
/// @throws Error  if the file is not Arrow, or is damaged
TableSchema read_arrow_schema(const std::string& path);
/// Whether Hugging Face's datasets wrote this folder with save_to_disk.
bool is_saved_dataset(const std::string& path);

/// Chooses the reader by the end of the file's name, without `.gz`: .csv, .tsv, .jsonl or .ndjson, .txt, .parquet,
/// .arrow, and .json for read_json_texts. A folder that save_to_disk wrote is read by read_arrow_texts.
/// @throws Error  as that reader does, or if the name ends otherwise
std::shared_ptr<const TextDataset> open_text_file(const std::string& path, const TextFileOptions& options);

}  // namespace lockstep
