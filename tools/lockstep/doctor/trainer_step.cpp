// Step trainer: the commands of a user, from files to a saved model and its evaluation.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tools/frame/companion.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/shell.h"
#include "tools/lockstep/doctor/doctor_job.h"

namespace lockstep {

StepFigures check_trainer(const DoctorOptions& options) {
  constexpr int kLimitS = 240;
  const ScratchFolder folder("lockstep-doctor");
  const std::string lockstep = shell_quoted(companion_program("lockstep"));
  run_with_limit(fmt::format("{} data digits --output {} --train {} --test 50", lockstep,
                             shell_quoted(folder / "digits"), options.is_full ? 4000 : 200),
                 kLimitS);
  const std::string command = fmt::format(
      "{0} run --nproc-per-node {1} {0} train --task image-classification --model convnet --train-file {2} "
      "--validation-file {2} --output-dir {3} --num-train-epochs 1 --per-device-train-batch-size 16 --eval-strategy "
      "epoch --save-strategy epoch",
      lockstep, options.ranks_of_jobs(), shell_quoted(folder / "digits"), shell_quoted(folder / "trained"));
  const CommandEnd end = run_with_limit(command, kLimitS);
  const std::string results = folder / "trained/all_results.json";
  std::ifstream in(results);
  const auto read = nlohmann::ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (read.is_discarded() || !std::filesystem::exists(folder / "trained/model.safetensors")) {
    throw Error("a training succeeded but left no model, or no results", command, "run the command by hand");
  }
  StepFigures found;
  found.figures = read;
  found.figures["command_s"] = end.seconds;
  found.line =
      fmt::format("{} ranks trained, evaluated and saved a model in {:.1f} s", options.ranks_of_jobs(), end.seconds);
  return found;
}

}  // namespace lockstep
