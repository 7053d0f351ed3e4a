#include "lockstep/data/files/format_ending.h"

#include <filesystem>

#include "lockstep/base/text/lower_case.h"

namespace lockstep {

std::string format_ending(const std::string& path) {
  std::filesystem::path name = lower_case(std::filesystem::path(path).filename().string());
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension().string();
}

}  // namespace lockstep
