// The programs that `lockstep` starts, however it was found.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/companion_path.h"

namespace lockstep {

inline bool has_companion(const std::string& name) { return ::access(companion_path(name).c_str(), X_OK) == 0; }

/// The path of the companion `name`. @throws UsageError  that says how to get it, if it does not exist
inline std::string companion_program(const std::string& name) {
  const std::string path = companion_path(name);
  if (!has_companion(name)) {
    if (errno == EACCES) {
      throw UsageError("cannot start " + path + ": " + errno_text(errno), "lockstep",
                       "if it is being built now, wait until it is finished; else chmod +x " + path);
    }
    throw UsageError("there is no program " + path + ": " + errno_text(errno), "lockstep",
                     "build it: cmake --build --preset release --target " + name +
                         ", or install all components of Lockstep (docs/building.md)");
  }
  return path;
}

}  // namespace lockstep
