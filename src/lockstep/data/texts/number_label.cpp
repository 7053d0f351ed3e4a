#include "lockstep/data/texts/number_label.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/data/csv/decimal.h"

namespace lockstep {

std::string number_label(std::string_view text, const std::string& label, bool fractions,
                         const TextRowChecks::Where& where) {
  const std::optional<double> number = parse_decimal(text);
  if (number && *number == std::floor(*number) && std::abs(*number) < 1e15) return fmt::format("{:.0f}", *number);
  if (number && fractions) return std::string(text);
  throw Error(fmt::format("the label \"{}\" is {}, not a class", label, text), where(),
              "give whole numbers; if it is the name of a class, put it in quotes");
}

}  // namespace lockstep
