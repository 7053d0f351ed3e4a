#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_problem.h"

namespace lockstep {

/// Calls `read` with the JSON that another launcher wrote, and returns what it returns. Launchers write whole numbers
/// alone: a fraction, which C++ may not convert to an integer that cannot hold it, is refused.
/// @param what  named in errors: "a launcher's message"
/// @throws Error  if `text` is not JSON without fractions, or `read` throws nlohmann::json::exception
template <typename Read>
auto read_launcher_message(const std::string& text, const std::string& what, Read read) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(what + " cannot be read: " + problem, "the launcher",
                "run all hosts with one version of Lockstep; give the job a secret (LOCKSTEP_SECRET) where others "
                "reach its store");
  };
  const auto refuse_fraction = [&](int, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::value && value.is_number_float())
      refuse(value.dump() + " is not a whole number");
    return true;
  };
  try {
    return read(nlohmann::json::parse(text, refuse_fraction));
  } catch (const nlohmann::json::exception& error) {
    refuse(json_problem(error));
    throw;  // not reached
  }
}

}  // namespace lockstep
