#pragma once

#include <string>

namespace lockstep {

/// A folder for Unix sockets that only this user can enter: "lockstep" in XDG_RUNTIME_DIR, else "lockstep-<uid>" in the
/// folder for temporary files, or "lockstep-<uid>-1" and so on if that one belongs to another user. Created with mode
/// 0700 if it is missing.
/// @throws Error  if it cannot be created, is not a folder, or is open to others; if all names are another user's
std::string private_runtime_folder();

}  // namespace lockstep
