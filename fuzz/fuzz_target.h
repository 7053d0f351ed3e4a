#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::fuzz {

/// A parser of bytes that somebody else wrote. It may refuse them with an Error. It must not crash, hang, take memory
/// without a bound, or throw anything else, and what it returns must fit together.
struct Target {
  const char* name;
  const char* parses;
  void (*run)(std::string_view bytes);
};

const std::vector<Target>& targets();
/// @throws UsageError  if no target has this name; it lists them
const Target& find_target(const std::string& name);

/// Runs the target; an Error is a right answer.
void run_target(const Target& target, std::string_view bytes);

/// What a target found to be wrong, with its place.
[[noreturn]] void violated(const char* condition, const char* file, int line);

/// The bytes as a file that is replaced by the next one of the same name, for parsers that take a path.
std::string file_with(const std::string& name, std::string_view bytes);

}  // namespace lockstep::fuzz

/// Ends a target if the condition does not hold.
#define LOCKSTEP_HOLDS(...) \
  ((__VA_ARGS__) ? static_cast<void>(0) : ::lockstep::fuzz::violated(#__VA_ARGS__, __FILE__, __LINE__))
