#include <vector>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/tables/columns.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/tables/arrow/arrow_table.h"

namespace lockstep::fuzz {

void run_arrow(std::string_view bytes) {
  const std::string path = file_with("rows.arrow", bytes);
  check_columns(*open_arrow_table(path, {path}));
}

}  // namespace lockstep::fuzz
