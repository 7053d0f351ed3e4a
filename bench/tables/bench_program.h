// The programs that training benchmarks start: workers that print what they measured as JSON objects, one a line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// `lockstep run` for so many processes, with `threads` threads each, up to where the program's name follows.
std::string run_command(int processes, int threads);

/// The objects that `command` prints. @param name  of what is measured, for errors
/// @throws Error  if a line is none, it fails, or there are fewer than `least`
std::vector<nlohmann::ordered_json> results_of(const std::string& command, const std::string& name, std::size_t least);

}  // namespace lockstep
