#pragma once

#include <string>

namespace lockstep {

/// Where the benchmarks' own files are: programs in Python that they compare with, and sources whose lines they count.
/// The folder bench/ of the installation that this program is part of, else that of the sources it was built from.
std::string bench_folder();

}  // namespace lockstep
