#pragma once

namespace lockstep {

/// How a file of separated values is written.
struct CsvDialect {
  char delimiter = ',';  ///< a tab for TSV
  char quote = '"';      ///< 0 if quotes are plain characters
};

}  // namespace lockstep
