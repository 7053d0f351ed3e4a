#pragma once

#include <string>

namespace lockstep {

/// The path of a file that belongs to the command `lockstep`: a program that it starts, or a library that it preloads.
/// In a build folder such files stand beside each other. `cmake --install` puts `lockstep` into bin/ and the others
/// into libexec/lockstep/, so a program of either folder looks into its own folder first and then into the other. If
/// the file does not exist in either, the path beside this program is returned, for messages.
std::string companion_path(const std::string& name);

}  // namespace lockstep
