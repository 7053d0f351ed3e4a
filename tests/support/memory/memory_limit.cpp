#include "tests/support/memory/memory_limit.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Files of the kernel's two versions of control groups.
struct GroupFiles {
  std::string root, limit, peak, kills;
};

GroupFiles group_files() {
  if (fs::exists("/sys/fs/cgroup/cgroup.controllers"))
    return {"/sys/fs/cgroup", "memory.max", "memory.peak", "memory.events"};
  return {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"};
}

bool wrote(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return static_cast<bool>(out);
}

std::string new_folder() {
  static std::atomic<int> count{0};
  return group_files().root + "/lockstep-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

}  // namespace

std::optional<std::string> MemoryLimit::why_not() {
  const std::string folder = new_folder();
  std::error_code error;
  if (!fs::create_directory(folder, error)) return "no control group can be made in " + group_files().root;
  const bool limits = fs::exists(folder + "/" + group_files().limit) && fs::exists(folder + "/" + group_files().peak);
  fs::remove(folder, error);  // with its files, which are the kernel's
  if (!limits) return "control groups in " + group_files().root + " cannot limit memory, or not tell its peak";
  return std::nullopt;
}

MemoryLimit::MemoryLimit(std::int64_t bytes) : folder_(new_folder()) {
  std::error_code error;
  if (!fs::create_directory(folder_, error) || !wrote(folder_ + "/" + group_files().limit, std::to_string(bytes))) {
    throw std::runtime_error("cannot limit memory by " + folder_ + ": " + error.message());
  }
}

MemoryLimit::~MemoryLimit() {
  std::error_code ignored;
  fs::remove(folder_, ignored);
}

std::vector<std::string> MemoryLimit::on(const std::vector<std::string>& command) const {
  std::vector<std::string> words{"sh", "-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"", folder_};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::int64_t MemoryLimit::peak() const {
  std::ifstream file(folder_ + "/" + group_files().peak);
  std::int64_t bytes = 0;
  if (!(file >> bytes)) throw std::runtime_error("cannot read " + folder_ + "/" + group_files().peak);
  return bytes;
}

bool MemoryLimit::has_killed() const {
  std::ifstream file(folder_ + "/" + group_files().kills);
  std::string name;
  for (std::int64_t count = 0; file >> name >> count;) {
    if (name == "oom_kill") return count > 0;
  }
  throw std::runtime_error("cannot read oom_kill in " + folder_ + "/" + group_files().kills);
}

}  // namespace lockstep
