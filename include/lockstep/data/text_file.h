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

/// What happens to a row that cannot be used.
enum class RowPolicy {
  Refuse,  ///< an error with file and line
  Skip,    ///< the row is left out
  Keep     ///< the row stays as it is
};

/// Which columns of a file are read, and what becomes of them.
struct TextFileOptions {
  /// The columns with texts: one, or two for pairs of sentences. A column is a CSV column, a key of JSON Lines'
  /// objects, or what the reader names.
  std::vector<std::string> texts;
  std::string label;  ///< the column with the label; empty: rows have none
  /// The label of each text (or number, written as in the file) of the label column. Empty: learned, in the order of
  /// the numbers if all are numbers, else of the texts; give a second file the `labels()` of the first.
  std::map<std::string, std::int64_t> labels;
  std::int64_t num_labels = 0;  ///< of the model's head: a label beyond is an error; 0: any

  RowPolicy unlisted_labels = RowPolicy::Refuse;  ///< rows whose label is not in `labels`; never `Keep`
  RowPolicy empty_texts = RowPolicy::Refuse;      ///< rows with a text that has nothing but white space
  /// Rows with a text that has a NUL or bytes that are no UTF-8. If kept, the tokenizer takes such bytes as U+FFFD.
  RowPolicy invalid_texts = RowPolicy::Refuse;

  CsvDialect dialect{};                   ///< CSV: delimiter and quote. TSV's delimiter is a tab whatever this says
  std::vector<std::string> column_names;  ///< CSV without a header: the names of all columns; empty: it has a header
};

/// Reads CSV (RFC 4180; see CsvTokenizer), plain or gzip. The file is mapped and its rows are found and checked once;
/// after that 12 bytes per row are held, and rows are split anew when they are asked for: files may be larger than
/// memory. Do not shorten a file while it is in use.
/// @throws Error  with file, line and column: as CsvTokenizer; a column that is not there (with those that are, and a
/// suggestion); records with more or fewer fields than columns; what the policies refuse; no row left
std::shared_ptr<const TextDataset> read_csv_texts(const std::string& path, const TextFileOptions& options);

/// The same for tab-separated values. Where quotes are plain characters, as in GLUE's files, set `dialect.quote` to 0.
std::shared_ptr<const TextDataset> read_tsv_texts(const std::string& path, const TextFileOptions& options);

/// Reads JSON Lines, plain or gzip: one object a line, whose texts are strings and whose label is a string, a whole
/// number or a boolean. Lines of white space alone are skipped. Mapped and indexed as `read_csv_texts`.
/// @throws Error  with file, line and column: text that is no JSON object, a missing key, a value of another type, what
/// the policies refuse; no row left
std::shared_ptr<const TextDataset> read_json_lines_texts(const std::string& path, const TextFileOptions& options);

/// Rows of plain text, one a line, plain or gzip: the one column is "text". Lines end with LF or CRLF. Mapped and
/// indexed as `read_csv_texts`.
/// @throws Error  with file and line: what the policies refuse; no row left
std::shared_ptr<const TextDataset> read_text_lines(const std::string& path, TextFileOptions options = {});

/// Which rows a file in SQuAD's shape makes.
enum class SquadRows {
  Questions,  ///< one per question, columns "id", "title", "context", "question"; a context comes again with each
  Contexts    ///< one per paragraph, columns "title", "context"
};

/// Reads JSON in SQuAD's shape (Rajpurkar et al., 2016, arXiv:1606.05250), plain or gzip:
/// {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [{"id": …, "question": …}]}]}]}. The texts are held in
/// memory, each once.
/// @throws Error  with file, line and column where it is no JSON; with the place in the document where it is not in
/// that shape; what the policies refuse; no row left
std::shared_ptr<const TextDataset> read_squad_texts(const std::string& path, const TextFileOptions& options,
                                                    SquadRows rows = SquadRows::Questions);

/// Reads Parquet through Arrow C++, where the build has it. Text columns hold texts, plain or as a dictionary; null is
/// an empty text. The columns are held in memory.
/// @throws Error  if the build has no Arrow; with file and row: a column that is missing or of another type, what the
/// policies refuse; no row left
std::shared_ptr<const TextDataset> read_parquet_texts(const std::string& path, const TextFileOptions& options);
/// What a Parquet file holds.
struct ParquetSchema {
  std::int64_t rows = 0;
  std::vector<std::pair<std::string, std::string>> columns;  ///< names and types, as Arrow calls them
};
/// @throws Error  if the build has no Arrow, or the file is no Parquet
ParquetSchema read_parquet_schema(const std::string& path);
/// Whether Arrow C++ was there when Lockstep was configured.
bool has_parquet_reader();

/// Reads a file by the end of its name, `.gz` aside: .csv, .tsv, .jsonl or .ndjson, .txt, .parquet, and .json for
/// SQuAD's shape.
/// @throws Error  as that reader does, or if the name ends otherwise
std::shared_ptr<const TextDataset> open_text_file(const std::string& path, const TextFileOptions& options);

}  // namespace lockstep
