#pragma once

// What the tests of wrong input to `lockstep train` and `lockstep predict` share.
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/running_program.h"

namespace lockstep {

using BadInputWords = std::vector<std::string>;

inline const std::string kBadInputBin = std::string(LOCKSTEP_BIN_DIR) + "/lockstep";
inline const std::string kBadInputData = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";

inline bool tells(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline ProgramEnd run_bad(const BadInputWords& words) { return run_program(words, {}, std::chrono::seconds(300)); }

inline std::string write_lines(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace lockstep
