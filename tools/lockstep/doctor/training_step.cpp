// Step training: steps of BERT as `lockstep bench step` measures them, one rank and all, and PyTorch's beside them.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "tools/frame/companion.h"
#include "tools/frame/shell.h"
#include "tools/lockstep/doctor/doctor_job.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLimitS = 400;

Json rows_of_bench(const DoctorOptions& options, const std::string& dtype) {
  const int ranks = options.ranks_of_jobs();
  std::string command = fmt::format(
      "{} bench step --json --dtype {} --ranks {} --rounds {} --steps {}", shell_quoted(companion_program("lockstep")),
      dtype, ranks > 1 ? fmt::format("1,{}", ranks) : "1", options.is_full ? 3 : 1, options.is_full ? 20 : 3);
  command += options.is_full ? " --model bert-base --batch 32 --seq 128" : " --model bert-tiny --batch 2 --seq 8";
  if (options.has_devices()) command += " --device cuda --modes unfused";
  if (!options.python.empty()) command += " --peer pytorch --python " + shell_quoted(options.python);
  const std::string output = run_with_limit(command, kLimitS).output;
  const std::size_t begin = output.find("[\n");
  Json rows = Json::parse(begin == std::string::npos ? "" : output.substr(begin), nullptr, /*allow_exceptions=*/false);
  if (rows.is_discarded()) {
    throw Error("lockstep bench step printed no table:\n" + output, command, "run the command by hand");
  }
  return rows;
}

std::string text_of_row(const Json& row) {
  return fmt::format("{} {} x {}: {:.1f} ms, {:.0f} samples/s", row["system"].get<std::string>(),
                     row["ranks"].get<int>(), row["dtype"].get<std::string>(), row["median_ms"].get<double>(),
                     row["samples_per_s"].get<double>());
}

}  // namespace

StepFigures check_training(const DoctorOptions& options) {
  companion_program("lockstep-bench");
  StepFigures found;
  found.figures = Json::array();
  std::vector<std::string> types{"fp32"};
  if (options.is_full && options.has_devices()) types.emplace_back("bf16");
  for (const std::string& dtype : types) {
    for (const Json& row : rows_of_bench(options, dtype)) {
      found.figures.push_back(row);
      found.line += (found.line.empty() ? "" : "; ") + text_of_row(row);
    }
  }
  return found;
}

}  // namespace lockstep
