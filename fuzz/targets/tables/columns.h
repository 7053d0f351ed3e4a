#pragma once

#include "lockstep/data/tables/table.h"

namespace lockstep::fuzz {

/// Reads every value of a table.
void check_columns(const Table& table);

}  // namespace lockstep::fuzz
