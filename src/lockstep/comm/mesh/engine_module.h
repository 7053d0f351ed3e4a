#pragma once

#include <string>

namespace lockstep {

/// Loads a part of an engine that is its own shared library: from the folder of the program or library that contains
/// this code, from ../lib beside it, from where the dynamic linker looks for this program's libraries (an installed
/// Lockstep adds lib/lockstep there), or from where it was built. Never unloaded, because its threads may outlive any
/// owner.
/// @param flags  of dlopen(3)
/// @return  the address of `entry`
/// @throws Error  with the dynamic linker's message, and `fix`
void* load_engine_module(const std::string& file, const std::string& built, const char* entry, int flags,
                         const std::string& fix);

}  // namespace lockstep
