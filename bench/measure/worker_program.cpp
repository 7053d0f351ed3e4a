#include "bench/measure/worker_program.h"

#include <fmt/format.h>

#include <sstream>

#include "lockstep/base/error.h"
#include "tools/frame/companion.h"
#include "tools/frame/shell.h"

namespace lockstep {

std::string run_command(int processes, int threads) {
  std::string variables;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    variables += fmt::format("{}={} ", name, threads);
  }
  return fmt::format("{}{} run --nproc-per-node {} ", variables, shell_quoted(companion_program("lockstep")),
                     processes);
}

std::vector<nlohmann::ordered_json> results_of(const std::string& command, const std::string& name, std::size_t least) {
  const auto [status, text] = run_shell(command);
  std::vector<nlohmann::ordered_json> results;
  std::istringstream lines(text);
  for (std::string line; status == 0 && std::getline(lines, line);) {
    results.push_back(nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false));
    if (!results.back().is_object())
      throw Error(name + " printed \"" + line + "\"", command, "this is a bug: report it");
  }
  if (status != 0 || results.size() < least) {
    throw Error(name + (status != 0 ? " failed" : " printed no result"), command,
                "read its messages above; run this command by hand to see them alone");
  }
  return results;
}

}  // namespace lockstep
