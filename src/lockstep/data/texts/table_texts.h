#pragma once

#include <memory>
#include <string>

#include "lockstep/data/tables/table.h"
#include "lockstep/data/text_dataset.h"
#include "lockstep/data/text_file.h"

namespace lockstep {

/// The rows of a table as rows of texts. Every row is read once, to check it; after that 12 bytes a row are held, and
/// the blocks of values that were used last.
/// @param format  name of the format, part of the digest
std::shared_ptr<const TextDataset> texts_of_table(std::unique_ptr<Table> table, const TextFileOptions& options,
                                                  const std::string& format);

/// Rows, names and types.
TableSchema schema_of_table(const Table& table);

}  // namespace lockstep
