#include <nlohmann/json.hpp>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/files/json_problem.h"

namespace lockstep::fuzz {

void run_json_problem(std::string_view bytes) {
  if (nlohmann::json::accept(bytes)) return;
  const JsonProblem problem = find_json_problem(bytes);
  LOCKSTEP_HOLDS(problem.line >= 1 && problem.column >= 1);
  LOCKSTEP_HOLDS(!problem.what.empty() && problem.text().size() < 2000);
}

}  // namespace lockstep::fuzz
