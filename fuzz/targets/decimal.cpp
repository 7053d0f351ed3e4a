#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/csv/decimal.h"

namespace lockstep::fuzz {

void run_decimal(std::string_view bytes) {
  const std::optional<double> value = parse_decimal(bytes);
  if (!value) return;
  const std::string text(bytes);
  char* end = nullptr;
  const double want = std::strtod(text.c_str(), &end);
  LOCKSTEP_HOLDS(end == text.c_str() + text.size());
  LOCKSTEP_HOLDS(std::isfinite(*value) && *value == want);
}

}  // namespace lockstep::fuzz
