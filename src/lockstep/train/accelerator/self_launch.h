#pragma once

namespace lockstep {

/// If this program was started without a launcher and Accelerate's configuration file exists, turns the process into
/// `lockstep launch` for this program and its arguments, which starts as many processes as the file says. Returns if
/// there is nothing to do: a launcher started it (RANK is set), or the file does not exist.
/// @throws Error  if the command `lockstep` is neither beside this program nor in PATH
void become_launcher_if_configured();

}  // namespace lockstep
