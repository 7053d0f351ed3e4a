#pragma once

// Functions that the tests of `lockstep run` share.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/loopback_port.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Changes = std::map<std::string, std::optional<std::string>>;

inline const std::string kBin = LOCKSTEP_BIN_DIR;
inline const Changes kNoThreads{{"OMP_NUM_THREADS", {}}, {"OPENBLAS_NUM_THREADS", {}}, {"MKL_NUM_THREADS", {}}};

inline Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

inline Words launch(Words flags, const Words& program) {
  Words words{kBin + "/lockstep", "run"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

inline Words shell(const std::string& script) { return {"sh", "-c", script}; }

inline ProgramEnd run(const Words& flags, const Words& program, const Changes& changes = {}) {
  return run_program(launch(flags, program), changes);
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Words sorted_lines(const std::string& text) {
  std::istringstream in(text);
  Words lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The numbers after "NAME=" in a text, such as "child=123".
inline std::vector<pid_t> pids_after(const std::string& text, const std::string& name) {
  std::vector<pid_t> pids;
  const std::regex pattern(name + "=([0-9]+)\n");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    pids.push_back(static_cast<pid_t>(std::stoi((*it)[1])));
  }
  return pids;
}

// The single folder that a job made in `base`.
inline fs::path job_log(const std::string& base) {
  for (const auto& entry : fs::directory_iterator(base)) return entry.path();
  return {};
}

}  // namespace lockstep
