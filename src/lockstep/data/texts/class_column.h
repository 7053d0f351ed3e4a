#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text_file.h"
#include "lockstep/data/texts/text_row_checks.h"

namespace lockstep {

/// A column of whole numbers that stand for classes with names, as Hugging Face's datasets store a ClassLabel: 1 is the
/// class `names[1]`, and -1 means no class.
class ClassColumn {
 public:
  /// Lists the classes in `options.labels`, each with its number, if no labels are listed there. If some are, those
  /// tell whether the classes go by their names or by their numbers.
  ClassColumn(std::vector<std::string> names, TextFileOptions& options);

  /// The text of a row's label; nothing if it has none. @throws Error  if there is no such class
  std::optional<std::string_view> label(std::string_view number, const TextRowChecks::Where& where) const;

 private:
  std::vector<std::string> names_;
  std::string column_;
  bool by_name_ = true;
};

}  // namespace lockstep
