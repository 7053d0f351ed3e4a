// The programs that `lockstep` starts are in its own folder, however it was found.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

inline std::string companion_path(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

inline bool has_companion(const std::string& name) { return ::access(companion_path(name).c_str(), X_OK) == 0; }

/// The path of the companion `name`. @throws Error  that says how to build it, if it does not exist
inline std::string companion_program(const std::string& name) {
  const std::string path = companion_path(name);
  if (!has_companion(name)) {
    throw Error("there is no program " + path + ": " + errno_text(errno), "lockstep",
                "build it: cmake --build --preset release --target " + name + ", or install it beside lockstep");
  }
  return path;
}

}  // namespace lockstep
