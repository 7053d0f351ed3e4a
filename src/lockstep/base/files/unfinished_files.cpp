#include "lockstep/base/files/unfinished_files.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "lockstep/base/log.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDrawnLetters = 6;

bool is_unfinished(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const auto mark = name.rfind(kUnfinishedMark);
  std::error_code ignored;
  return mark != std::string::npos && mark > 0 &&
         name.size() - mark == std::string(kUnfinishedMark).size() + kDrawnLetters &&
         entry.symlink_status(ignored).type() == fs::file_type::regular;
}

}  // namespace

void remove_unfinished_files(const std::string& folder) {
  std::vector<fs::path> folders{folder}, found;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    const bool is_folder = entry.symlink_status(problem).type() == fs::file_type::directory;
    if (is_folder && entry.path().filename().string().rfind("checkpoint-", 0) != 0) folders.push_back(entry.path());
  }
  for (const fs::path& each : folders) {
    for (const auto& entry : fs::directory_iterator(each, problem)) {
      if (is_unfinished(entry)) found.push_back(entry.path());
    }
  }
  for (const fs::path& path : found) {
    if (fs::remove(path, problem)) log_info("removed {}, which a killed process had left", path.string());
  }
}

}  // namespace lockstep
