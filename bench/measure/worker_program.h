// The programs that training benchmarks start: workers that print their measurements as JSON objects, one per line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// The `lockstep run` command line for this many processes with `threads` threads each, up to the program's name.
std::string run_command(int processes, int threads);

/// The JSON objects that `command` prints. @param name  names the measurement in errors
/// @throws Error  if the command fails, a line is not a JSON object, or fewer than `least` objects arrive
std::vector<nlohmann::ordered_json> results_of(const std::string& command, const std::string& name, std::size_t least);

}  // namespace lockstep
