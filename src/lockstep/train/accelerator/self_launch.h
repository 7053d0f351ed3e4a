#pragma once

namespace lockstep {

/// Where this program was started without a launcher, and Accelerate's configuration file is there: becomes `lockstep
/// launch` with this program and its arguments, which starts as many processes as the file says. Returns where nothing
/// is to be done: there is a launcher (RANK is set), or no such file.
/// @throws Error  if the command `lockstep` is not beside this program and not in PATH
void become_launcher_if_configured();

}  // namespace lockstep
