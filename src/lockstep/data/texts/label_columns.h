#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/texts/text_row_checks.h"

namespace lockstep {

/// Makes one label of several columns of 0 and 1: the JSON list of the names of the columns with 1. For each row, call
/// `add` for every column in order, then `take`.
class LabelColumns {
 public:
  explicit LabelColumns(const std::vector<std::string>& names);

  /// @param value  0, 1, 0.0, 1.0, false, true, False or True. @throws Error  if it is another one
  void add(std::size_t column, std::string_view value, const TextRowChecks::Where& where);
  /// The row's label, valid until the next call.
  const std::string& take();

 private:
  std::vector<std::string> quoted_;  // names as JSON
  std::string list_;
  std::string taken_;
};

}  // namespace lockstep
