#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/tables/table.h"

namespace lockstep {

/// Files of Arrow, or streams, one after the other as one table. They are mapped.
/// @param name  what the table is called in errors: the file, or the folder that lists the files
/// @throws Error  with the path, if one is not Arrow or is damaged, or if their columns differ
std::unique_ptr<Table> open_arrow_table(const std::string& name, const std::vector<std::string>& files);

}  // namespace lockstep
