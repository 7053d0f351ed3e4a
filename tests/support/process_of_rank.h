#pragma once

#include <sys/types.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace lockstep {

/// The process of a rank from the start of the job of `launcher`; nothing if it has ended.
inline std::optional<pid_t> process_of_rank(pid_t launcher, int rank) {
  const std::string tasks = "/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children";
  std::ifstream children(tasks);
  for (pid_t pid = 0; children >> pid;) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
    std::stringstream content;
    content << '\0' << file.rdbuf();
    const std::string variables = content.str();
    const std::string wanted = std::string(1, '\0') + "RANK=" + std::to_string(rank) + std::string(1, '\0');
    const std::string replaces = std::string(1, '\0') + "LOCKSTEP_MEMBER=";
    if (variables.find(wanted) != std::string::npos && variables.find(replaces) == std::string::npos) return pid;
  }
  return std::nullopt;
}

}  // namespace lockstep
