#pragma once

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace lockstep {

/// The output of `script` under the first Python that can run it (Debian's python3 has torch); empty if none can.
inline std::string run_python(const std::string& script) {
  const TemporaryFolder folder;
  std::ofstream(folder / "script.py") << script;
  for (const char* python : {"/usr/bin/python3", "python3"}) {
    const std::string command = std::string(python) + " " + (folder / "script.py") + " 2>/dev/null";
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) continue;
    std::string output;
    std::array<char, 4096> block;
    while (const std::size_t got = std::fread(block.data(), 1, block.size(), pipe)) output.append(block.data(), got);
    if (::pclose(pipe) == 0) return output;
  }
  return "";
}

}  // namespace lockstep
