#pragma once

// What the tests of wrong input to `lockstep train` and `lockstep predict` share.
#include <string>
#include <vector>

#include "tests/support/running_program.h"
#include "tests/support/write_lines.h"

namespace lockstep {

using BadInputWords = std::vector<std::string>;

inline const std::string kBadInputBin = std::string(LOCKSTEP_BIN_DIR) + "/lockstep";
inline const std::string kBadInputData = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";

inline bool tells(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline ProgramEnd run_bad(const BadInputWords& words) { return run_program(words, {}, std::chrono::seconds(300)); }

}  // namespace lockstep
