// The flags that say how a file of separated values is written, for all commands that read one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "lockstep/data/csv_dialect.h"

namespace lockstep {

/// How a file of separated values is written.
struct TableForm {
  CsvDialect dialect{};
  bool has_header = true;  ///< false: the first record is a row, and the columns are called 1, 2, …
  std::string given{};     ///< the first of the flags that was given; empty if none was
};

struct TableFlags {
  std::string delimiter;            ///< empty: as the file's name says
  std::string quoting = "minimal";  ///< or "none"
  bool no_header = false;

  void add(CLI::App& app);
  /// @throws UsageError  if the delimiter is not one character
  TableForm form() const;
  /// The first of the flags that was given; empty if none was.
  std::string given() const;
};

}  // namespace lockstep
