#include "tools/lockstep/doctor/doctor_job.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "tools/frame/companion.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPartLimitS = 120;
constexpr int kTimedOut = 124;  // as coreutils' timeout reports it

std::string last_lines(const std::string& text, int count) {
  std::size_t begin = text.size();
  while (begin > 0 && count >= 0) {
    begin = text.rfind('\n', begin - 1);
    if (begin == std::string::npos) return text;
    --count;
  }
  return text.substr(begin + (begin < text.size() && text[begin] == '\n' ? 1 : 0));
}

std::string part_command(const std::string& part, const DoctorOptions& options, int device, const std::string& file) {
  return fmt::format("{} doctor --part {} --device {} --size {} --figures {}",
                     shell_quoted(companion_program("lockstep")), part, device, options.is_full ? "full" : "small",
                     shell_quoted(file));
}

Json figures_of(const std::string& command, const std::string& file) {
  const CommandEnd end = run_with_limit(command, kPartLimitS);
  std::ifstream in(file);
  Json figures = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (figures.is_discarded()) {
    throw Error("a process of the step succeeded but wrote no figures", command, "run the command by hand");
  }
  figures["start_s"] = end.seconds - figures.value("seconds", 0.0);
  return figures;
}

}  // namespace

CommandEnd run_with_limit(const std::string& command, int limit_s) {
  const auto begin = std::chrono::steady_clock::now();
  const auto [code, output] =
      run_shell(fmt::format("timeout --kill-after=5 {} sh -c {} 2>&1", limit_s, shell_quoted(command)));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (code == 0) return {output, took.count()};
  const std::string text = last_lines(output, 20);
  if (code == kTimedOut || took.count() >= limit_s) {
    throw Error(fmt::format("the step had not ended after {} s. It wrote:\n{}", limit_s, text), command,
                "run the command by hand, and find out where it hangs; NCCL_DEBUG=INFO shows what NCCL does");
  }
  throw Error(fmt::format("a process failed with code {}:\n{}", code, text), command,
              "follow the process's own message; the command prints it again");
}

Json run_part(const std::string& part, const DoctorOptions& options, int device) {
  const ScratchFolder folder("lockstep-doctor");
  return figures_of(part_command(part, options, device, folder / "figures.json"), folder / "figures.json");
}

Json run_part_on_ranks(const std::string& part, int ranks, const DoctorOptions& options) {
  const ScratchFolder folder("lockstep-doctor");
  const std::string file = folder / "figures.json";
  // Lockstep's own limit ends first, and names the rank that is late.
  return figures_of(
      fmt::format("LOCKSTEP_TIMEOUT_S=${{LOCKSTEP_TIMEOUT_S:-60}} {} run --nproc-per-node {} {}",
                  shell_quoted(companion_program("lockstep")), ranks, part_command(part, options, -1, file)),
      file);
}

Json run_part_on_lone_ranks(const std::string& part, int ranks, const DoctorOptions& options) {
  const ScratchFolder folder("lockstep-doctor");
  const std::string file = folder / "figures.json";
  const std::string program =
      part_command(part, options, -1, file) + " --meeting " + shell_quoted("file://" + (folder / "meeting"));
  std::string command = fmt::format("export WORLD_SIZE={0} LOCAL_WORLD_SIZE={0}; ", ranks);
  for (int rank = ranks - 1; rank > 0; --rank) {
    command += fmt::format("RANK={0} LOCAL_RANK={0} {1} & ", rank, program);
  }
  return figures_of(command + "RANK=0 LOCAL_RANK=0 " + program + "; code=$?; wait; exit $code", file);
}

void write_figures(const std::string& path, Json figures, double seconds) {
  figures["seconds"] = seconds;
  write_file_atomically(path, figures.dump());
}

}  // namespace lockstep
