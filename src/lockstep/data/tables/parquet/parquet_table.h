#pragma once

#include <memory>
#include <string>

#include "lockstep/data/tables/table.h"

namespace lockstep {

/// A Parquet file as a table. The file is mapped, and its pages are decoded when they are read.
/// @throws Error  with the path, if it is not Parquet, or is encrypted or damaged
std::unique_ptr<Table> open_parquet_table(const std::string& path);

}  // namespace lockstep
