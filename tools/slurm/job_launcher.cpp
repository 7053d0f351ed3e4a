#include "tools/slurm/job_launcher.h"

#include <set>

#include "lockstep/base/text/flag_name.h"

namespace lockstep {
namespace {

constexpr LauncherKind kLockstepRun{"lockstep run", "--nnodes", "--node-rank", "--master-addr", "--master-port", true};
constexpr LauncherKind kLockstepLaunch{"lockstep launch",   "--num-machines",      "--machine-rank",
                                       "--main-process-ip", "--main-process-port", true};
constexpr LauncherKind kTorchrun{"torchrun", "--nnodes", "--node-rank", "--master-addr", "--master-port", false};
constexpr LauncherKind kAccelerate{"accelerate launch", "--num-machines",      "--machine-rank",
                                   "--main-process-ip", "--main-process-port", false};
constexpr LauncherKind kDeepspeed{"deepspeed", nullptr, nullptr, nullptr, nullptr, false};

bool is_python(const std::string& name) { return name.rfind("python", 0) == 0; }

const LauncherKind* module_kind(const std::string& module) {
  if (module == "torch.distributed.run" || module == "torch.distributed.launch") return &kTorchrun;
  if (module == "accelerate.commands.launch") return &kAccelerate;
  return nullptr;
}

}  // namespace

std::optional<JobLauncher> launcher_at(const Words& words, std::size_t at) {
  if (at >= words.size()) return std::nullopt;
  const std::string name = file_name_of(words[at]);
  const std::string verb = at + 1 < words.size() ? words[at + 1] : "";
  if (name == "torchrun") return JobLauncher{&kTorchrun, at, at + 1};
  if (name == "deepspeed") return JobLauncher{&kDeepspeed, at, at + 1};
  if (name == "accelerate" && verb == "launch") return JobLauncher{&kAccelerate, at, at + 2};
  if (name == "lockstep" && verb == "run") return JobLauncher{&kLockstepRun, at, at + 2};
  if (name == "lockstep" && verb == "launch") return JobLauncher{&kLockstepLaunch, at, at + 2};
  if (!is_python(name)) return std::nullopt;
  for (std::size_t i = at + 1; i + 1 < words.size() && words[i][0] == '-'; ++i) {  // "python -u -m MODULE"
    if (words[i] != "-m") continue;
    const LauncherKind* const kind = module_kind(words[i + 1]);
    return kind == nullptr ? std::nullopt : std::optional(JobLauncher{kind, at, i + 2});
  }
  return std::nullopt;
}

std::optional<JobLauncher> launcher_of(const Words& words) {
  static const std::set<std::string> wrappers{"numactl",     "taskset",   "nice",    "env",     "time",
                                              "singularity", "apptainer", "shifter", "podman",  "docker",
                                              "stdbuf",      "uv",        "conda",   "xvfb-run"};
  const bool is_wrapped = !words.empty() && wrappers.count(file_name_of(words.front())) != 0;
  for (std::size_t i = 0; i < (is_wrapped ? words.size() : 1); ++i) {
    if (const auto found = launcher_at(words, i)) return found;
  }
  return std::nullopt;
}

std::optional<std::string> flag_value(const Words& words, const std::string& flag) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (with_hyphens(words[i].substr(0, equals)) != flag) continue;
    if (equals != std::string::npos) return words[i].substr(equals + 1);
    return i + 1 < words.size() ? words[i + 1] : "";
  }
  return std::nullopt;
}

bool places_by_arrival(const Words& words) {
  const std::string backend = flag_value(words, "--rdzv-backend").value_or("static");
  if (backend != "static" || flag_value(words, "--rdzv-id")) return true;
  return flag_value(words, "--nnodes").value_or("").find(':') != std::string::npos;
}

}  // namespace lockstep
