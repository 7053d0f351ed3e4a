#pragma once

#include <string>

namespace lockstep {

/// This launcher among others, on one host too: "host-a (pid 4711)".
std::string launcher_name();

/// Where an error of this launcher happened: "lockstep run on host-a (pid 4711), rendezvous".
std::string at_launcher(const std::string& what);

}  // namespace lockstep
