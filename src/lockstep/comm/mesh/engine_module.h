#pragma once

#include <string>

namespace lockstep {

/// Loads a part of an engine that is a shared library of its own: beside the program or library that this code is in,
/// in ../lib from there, or where it was built. Never unloaded: its threads may outlive any owner.
/// @param flags  of dlopen(3)
/// @return  the address of `entry`
/// @throws Error  with what the dynamic linker says, and `fix`
void* load_engine_module(const std::string& file, const std::string& built, const char* entry, int flags,
                         const std::string& fix);

}  // namespace lockstep
