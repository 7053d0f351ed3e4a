#pragma once

#include <string>

namespace lockstep {

/// A folder for Unix sockets that only this user can enter: "lockstep" in XDG_RUNTIME_DIR, else "lockstep-<uid>" in the
/// folder for temporary files. Created with mode 0700 if it is missing.
/// @throws Error  if it cannot be created, is not a folder, belongs to another user or is open to others
std::string private_runtime_folder();

}  // namespace lockstep
