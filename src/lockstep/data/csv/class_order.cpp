#include "lockstep/data/csv/class_order.h"

#include <algorithm>

#include "lockstep/data/csv/decimal.h"

namespace lockstep {

void sort_classes(std::vector<std::string>& names) {
  const bool numbers =
      std::all_of(names.begin(), names.end(), [](const std::string& name) { return parse_decimal(name).has_value(); });
  std::sort(names.begin(), names.end(), [numbers](const std::string& a, const std::string& b) {
    if (!numbers || parse_decimal(a) == parse_decimal(b)) return a < b;
    return parse_decimal(a) < parse_decimal(b);
  });
}

}  // namespace lockstep
