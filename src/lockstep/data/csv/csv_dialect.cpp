#include "lockstep/data/csv_dialect.h"

#include "lockstep/data/files/format_ending.h"

namespace lockstep {

CsvDialect dialect_of_file(const std::string& path, CsvDialect given) {
  if (given.delimiter == '\0') given.delimiter = format_ending(path) == ".tsv" ? '\t' : ',';
  return given;
}

}  // namespace lockstep
