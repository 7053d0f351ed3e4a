#pragma once

#include <string>

namespace lockstep {

/// How a file of separated values is written.
struct CsvDialect {
  /// Between fields. 0: what the file's name says, which is a tab for .tsv, plain or gzip, and else a comma.
  char delimiter = '\0';
  char quote = '"';  ///< 0 if quotes are plain characters
};

/// `given` with the delimiter in which a file of this name is read.
CsvDialect dialect_of_file(const std::string& path, CsvDialect given = {});

}  // namespace lockstep
