#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace lockstep {

/// What the JSON library says of its failure, in words: without its own tag and place, and as printable text of bounded
/// length.
std::string json_problem(const std::exception& error);

/// Where a text stops being JSON, and why.
struct JsonProblem {
  std::int64_t line = 1;
  std::int64_t column = 1;
  std::string key;   ///< the last one before the place, printable; empty: none
  std::string what;  ///< "number overflow parsing '1e999'"

  /// "line 2, column 24, after the key "learning_rate": number overflow parsing '1e999'"
  std::string text() const;
};

/// Looks for the problem in `text`, which the library has refused.
JsonProblem find_json_problem(std::string_view text);

}  // namespace lockstep
