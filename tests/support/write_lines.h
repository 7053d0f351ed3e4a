#pragma once

#include <fstream>
#include <string>

namespace lockstep {

/// Writes a file, and returns its path.
inline std::string write_lines(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace lockstep
