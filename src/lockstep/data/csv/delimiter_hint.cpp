#include "lockstep/data/csv/delimiter_hint.h"

#include <fmt/format.h>

namespace lockstep {

std::string delimiter_hint(const std::vector<std::string>& columns) {
  if (columns.size() != 1) return "";
  const std::size_t at = columns[0].find_first_of(";|\t");
  if (at == std::string::npos) return "";
  const std::string delimiter = columns[0][at] == '\t' ? "\\t" : std::string(1, columns[0][at]);
  return fmt::format("if the fields are separated by this character, give --delimiter '{}'; else ", delimiter);
}

}  // namespace lockstep
