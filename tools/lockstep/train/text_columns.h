// Which columns of a file of texts a task reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/data/text_file.h"
#include "tools/lockstep/flags/table_flags.h"

namespace lockstep {

using ColumnNames = std::vector<std::string>;

/// Names for an error: the first of many, and the beginning of long ones.
std::string shown_columns(const ColumnNames& columns);

/// Whether `name` is one of `columns`.
bool has_column(const ColumnNames& columns, const std::string& name);

/// The columns of a file that open_text_file reads; 1, 2, … of a table without a header.
/// @throws Error  if it cannot be read
ColumnNames columns_of_texts(const std::string& path, const TableForm& form);
/// Lets `options` read the table `path` in its form. @throws UsageError  if a form is given, and the file is not a
/// table
void set_form(const TableForm& form, const std::string& path, TextFileOptions& options);

/// The names under which files have a text, or a pair of texts.
const std::vector<ColumnNames>& usual_text_columns();
/// The names under which files have texts that are compared with each other.
const std::vector<ColumnNames>& usual_sentence_columns();

/// The columns that hold the texts of such a file: those that were given, or else the first of `usual` that it has.
/// @throws UsageError  if none was given and the file has none of the usual ones; Error  if it cannot be read
ColumnNames text_columns_of_file(const std::string& path, const ColumnNames& given, const TableForm& form = {},
                                 const std::vector<ColumnNames>& usual = usual_text_columns());

/// Adds the columns that are read to what a task records of its data, unless those of another file are there: the flags
/// do not say what was found without them.
void record_columns(const TextFileOptions& options, nlohmann::json& data_arguments);

}  // namespace lockstep
