#include "lockstep/base/environment_check.h"

#include <algorithm>
#include <sstream>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/instruction_set.h"

namespace lockstep {
namespace {

bool is_positive_number(const std::string& text) {
  return !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos &&
         text.find_first_not_of('0') != std::string::npos;
}

// "4", or for OpenMP "4,2": one number for each level of nested loops.
bool is_thread_count(const std::string& value) {
  std::istringstream levels(value);
  std::string level;
  bool is_good = !value.empty() && value.back() != ',';
  while (std::getline(levels, level, ',')) is_good = is_good && is_positive_number(level);
  return is_good;
}

}  // namespace

void require_readable_environment() {
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const auto value = env_string(name);
    if (!value || is_thread_count(*value)) continue;
    throw Error(std::string(name) + " is \"" + *value + "\", which is not a number of threads", "environment",
                std::string("set ") + name + " to 1 or more, or unset it");
  }
  for (const char* name : {"LOCKSTEP_TIMEOUT_S", "LOCKSTEP_JOIN_TIMEOUT_S"}) {
    const auto seconds = env_int(name);
    if (!seconds || *seconds > 0) continue;
    throw Error(name + (" is " + std::to_string(*seconds)), "environment",
                "set it to a positive number of seconds, or unset it for the default");
  }
  require_known_instruction_set();
}

}  // namespace lockstep
