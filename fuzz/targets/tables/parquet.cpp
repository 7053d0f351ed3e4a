#include "fuzz/fuzz_target.h"
#include "fuzz/targets/tables/columns.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/tables/parquet/parquet_table.h"

namespace lockstep::fuzz {

void run_parquet(std::string_view bytes) { check_columns(*open_parquet_table(file_with("rows.parquet", bytes))); }

}  // namespace lockstep::fuzz
