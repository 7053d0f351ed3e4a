// What the cells of one column of a table are, and whether its words were meant to be words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tools/lockstep/train/number_spelling.h"

namespace lockstep {

/// Counts the cells of a column by kind. A cell without a value does not make a column of numbers a column of words:
/// reading it refuses the cell, with its location.
class ColumnCells {
 public:
  using Where = std::function<std::string()>;

  void add(const std::string& text, const Where& where);

  bool is_numeric() const { return numbers_ > 0 && others() == 0; }
  /// No cell has a value.
  bool is_blank() const { return numbers_ == 0 && others() == 0; }
  bool is_empty() const { return is_blank() && missing_ == 0; }

  /// A warning if this column of words was probably meant otherwise, so that each value would become a category by
  /// mistake: most values are numbers, or would be in another spelling; many are dates; or so many of them differ that
  /// a value says nothing of another row.
  std::vector<std::string> warnings_of_words(const std::string& column, const std::string& file) const;

 private:
  // Cells of one kind, and one to show.
  struct Kind {
    std::int64_t cells = 0;
    std::string example;  // in quotes
    std::string where;
  };
  static void count(Kind& kind, const std::string& text, const Where& where);
  std::int64_t others() const { return words_.cells + spelled_.cells + dates_.cells; }

  std::int64_t numbers_ = 0;
  std::int64_t missing_ = 0;
  Kind words_, spelled_, dates_;
  PlainNumber plain_;                          // how the example of spelled_ would be a number
  std::unordered_set<std::size_t> different_;  // hashes of values that are not numbers
};

/// Whether a text is a number, as C's strtod reads it.
bool is_number_text(const std::string& text);

}  // namespace lockstep
