#include "tools/lockstep/flags/table_flags.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr const char* kNoQuotes = "none";

}  // namespace

void TableFlags::add(CLI::App& app) {
  app.add_option("--delimiter", delimiter,
                 "character between the fields of a table; default: a tab for .tsv, else a comma");
  app.add_option("--quoting", quoting,
                 "minimal: fields of a table may be in double quotes, and then contain delimiters and line breaks; "
                 "none: quotes are plain characters, as in GLUE's files")
      ->check(CLI::IsMember({"minimal", kNoQuotes}))
      ->capture_default_str();
  app.add_flag("--no-header", no_header,
               "the first record of a table is a row: name columns by their numbers, from 1 (--text-column 2, "
               "--label-column 1)");
}

TableForm TableFlags::form() const {
  TableForm form;
  form.has_header = !no_header;
  form.given = given();
  if (quoting == kNoQuotes) form.dialect.quote = '\0';
  if (delimiter.empty()) return form;
  if (delimiter == "\\t") {
    form.dialect.delimiter = '\t';
  } else if (delimiter.size() == 1) {
    form.dialect.delimiter = delimiter[0];
  } else {
    throw UsageError("the delimiter '" + delimiter + "' is not one character", "--delimiter", "give one, or \\t");
  }
  return form;
}

std::string TableFlags::given() const {
  if (!delimiter.empty()) return "--delimiter";
  if (quoting == kNoQuotes) return "--quoting";
  return no_header ? "--no-header" : "";
}

}  // namespace lockstep
