// Which columns of a file of texts a task reads.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/csv_dialect.h"

namespace lockstep {

using ColumnNames = std::vector<std::string>;

/// Whether `name` is one of `columns`.
bool has_column(const ColumnNames& columns, const std::string& name);

/// The columns of a file that open_text_file reads. @param dialect  of CSV; TSV has tabs
/// @throws Error  if it cannot be read
ColumnNames columns_of_texts(const std::string& path, const CsvDialect& dialect);

/// The names under which files have a text, or a pair of texts.
const std::vector<ColumnNames>& usual_text_columns();
/// The names under which files have texts that are compared with each other.
const std::vector<ColumnNames>& usual_sentence_columns();

/// The columns that hold the texts of such a file: those that were given, or else the first of `usual` that it has.
/// @throws UsageError  if none was given and the file has none of the usual ones; Error  if it cannot be read
ColumnNames text_columns_of_file(const std::string& path, const ColumnNames& given, const CsvDialect& dialect = {},
                                 const std::vector<ColumnNames>& usual = usual_text_columns());

}  // namespace lockstep
