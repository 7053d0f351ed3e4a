#pragma once

#include <string>

namespace lockstep {

/// The processor's model, as /proc/cpuinfo has it: "AMD EPYC 7763 64-Core Processor"; "unknown" if it is not there.
std::string processor_name();

}  // namespace lockstep
