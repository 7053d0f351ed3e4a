#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Where a part of an engine that is its own shared library is looked for, in this order: the folder of the program or
/// library that contains this code; ../lib beside it; where the dynamic linker looks for this program's libraries (an
/// installed Lockstep adds lib/lockstep there); where it was built. A program of the build takes the build's before
/// what the linker finds, because an installed Lockstep there may be another version.
/// @param folder  of the program or library that contains this code
/// @param built  the path at which the module was built
/// @param build_folder  contains all that the build makes
std::vector<std::string> engine_module_places(const std::string& file, const std::string& folder,
                                              const std::string& built, const std::string& build_folder);

/// Loads such a module. Never unloaded, because its threads may outlive any owner.
/// @param flags  of dlopen(3)
/// @return  the address of `entry`
/// @throws Error  with the dynamic linker's message, and `fix`
void* load_engine_module(const std::string& file, const std::string& built, const char* entry, int flags,
                         const std::string& fix);

}  // namespace lockstep
