#pragma once

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <ostream>
#include <string>
#include <vector>

namespace lockstep {

/// A place in a file that does not do what its author intends.
struct FileFinding {
  int line = 0;  ///< from 1; 0 if something is missing from the file
  std::string problem;
  std::string fix;
};

/// Prints a line for each finding, or that there is none. @return  the status of the command that has looked
inline int print_findings(std::ostream& out, const std::string& path, const std::vector<FileFinding>& findings) {
  for (const FileFinding& finding : findings) {
    const std::string place = finding.line > 0 ? fmt::format("{}:{}", path, finding.line) : path;
    fmt::print(out, "{}: {} [fix: {}]\n", place, finding.problem, finding.fix);
  }
  if (findings.empty()) fmt::print(out, "{}: nothing found\n", path);
  return findings.empty() ? 0 : 1;
}

}  // namespace lockstep
