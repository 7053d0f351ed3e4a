#include "tools/slurm/sbatch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/launch/process/text_cursor.h"
#include "tools/slurm/job_launcher.h"
#include "tools/slurm/slurm_time.h"
#include "tools/slurm/slurm_values.h"

namespace lockstep {
namespace {

// The exit code with which lockstep's Trainer leaves after it was asked to stop, by SIGTERM or SIGUSR1, and has saved:
// 128 + SIGTERM. A program that does not handle SIGUSR1 dies from it with another code, and must not queue again for
// ever.
constexpr int kSavedAndStopped = 143;

void require_option(bool holds, const std::string& flag, const std::string& value, const std::string& fix) {
  if (!holds) throw UsageError(fmt::format("{} is \"{}\"", flag, printable(value)), "lockstep slurm", fix);
}

void check_time(const SbatchOptions& options) {
  const auto limit_s = slurm_seconds(*options.time);
  require_option(limit_s.has_value(), "--time", *options.time,
                 "write minutes, minutes:seconds, hours:minutes:seconds, or days-hours[:minutes[:seconds]]");
  if (options.signal_seconds > 0 && is_signalled_at_start(*limit_s, options.signal_seconds)) {
    throw UsageError(
        fmt::format("--time {} is {} s, and --signal-seconds {} has the ranks signalled so long before it, "
                    "up to a minute early: as soon as they start",
                    *options.time, *limit_s, options.signal_seconds),
        "lockstep slurm",
        fmt::format("give --time more than {} s, or a smaller --signal-seconds; 0 sends no signal",
                    options.signal_seconds + 60));
  }
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlainMarks = "./:=,@%+-";
  const bool is_plain = std::all_of(word.begin(), word.end(), [&](char c) {
    return kNameCharacters.find(c) != std::string_view::npos || kPlainMarks.find(c) != std::string_view::npos;
  });
  if (is_plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void check_launcher(const SbatchOptions& options, const JobLauncher& launcher) {
  const std::string name = launcher.kind->name;
  if (options.ntasks_per_node > 1) {
    throw UsageError(
        fmt::format("--ntasks-per-node {} would start {} so often on each host", options.ntasks_per_node, name),
        "lockstep slurm", fmt::format("leave --ntasks-per-node out, and give {} the number of ranks of a host", name));
  }
  if (launcher.kind->nodes_flag == nullptr) return;
  const std::string nodes =
      flag_value(options.command, launcher.kind->nodes_flag).value_or(std::to_string(options.nodes));
  if (nodes.find(':') == std::string::npos && nodes != std::to_string(options.nodes)) {
    throw UsageError(
        fmt::format("{} of {} is {}, and --nodes {}", launcher.kind->nodes_flag, name, printable(nodes), options.nodes),
        "lockstep slurm", "make the two numbers equal");
  }
}

// What srun starts: the program itself; on several hosts a launcher gets the place of its host, which srun's process
// there knows.
std::string started_command(const SbatchOptions& options) {
  const auto joined = [&](std::size_t begin, std::size_t end) {
    std::string text;
    for (std::size_t i = begin; i < end; ++i) text += " " + quoted(options.command[i]);
    return text;
  };
  const auto launcher = launcher_at(options.command, 0);
  const bool is_placed = !launcher || launcher->kind->rank_flag == nullptr || options.nodes == 1 ||
                         places_by_arrival(options.command) || flag_value(options.command, launcher->kind->rank_flag);
  if (is_placed) return joined(0, options.command.size());
  const LauncherKind& kind = *launcher->kind;
  std::string flags;
  if (!flag_value(options.command, kind.nodes_flag)) flags += fmt::format(" {} {}", kind.nodes_flag, options.nodes);
  flags += fmt::format(" {} \"$SLURM_NODEID\"", kind.rank_flag);
  if (!flag_value(options.command, kind.address_flag)) flags += fmt::format(" {} \"$MASTER_ADDR\"", kind.address_flag);
  if (!flag_value(options.command, kind.port_flag)) flags += fmt::format(" {} \"$MASTER_PORT\"", kind.port_flag);
  // The launcher's path may need quotes, which would end those around the shell's text: it is there as "$0".
  const std::string& path = options.command.front();
  const std::string name = (quoted(path) == path ? " " + path : " \"$0\"") + joined(1, launcher->end);
  return fmt::format(" sh -c 'exec{}{} \"$@\"' {}{}", name, flags, quoted(path),
                     joined(launcher->end, options.command.size()));
}

void check_options(const SbatchOptions& options) {
  const auto at_least = [](int value, int least, const std::string& flag) {
    require_option(value >= least, flag, std::to_string(value), fmt::format("give a number from {}", least));
  };
  at_least(options.nodes, 1, "--nodes");
  at_least(options.ntasks_per_node, 1, "--ntasks-per-node");
  at_least(options.cpus_per_task.value_or(1), 1, "--cpus-per-task");
  at_least(options.gpus_per_node, 0, "--gpus-per-node");
  at_least(options.signal_seconds, 0, "--signal-seconds");
  require_option(options.signal_seconds <= 65535, "--signal-seconds", std::to_string(options.signal_seconds),
                 "Slurm takes at most 65535");
  if (options.time) check_time(options);
  if (!launcher_at(options.command, 0)) {
    require_option(options.gpus_per_node == 0 || options.gpus_per_node == options.ntasks_per_node, "--gpus-per-node",
                   std::to_string(options.gpus_per_node),
                   fmt::format("a rank takes one GPU: give the number of --ntasks-per-node, which is {}",
                               options.ntasks_per_node));
  }
  require_option(options.mem.empty() || is_slurm_memory(options.mem), "--mem", options.mem,
                 "write a number and K, M, G or T, as 64G");
  for (const auto& [flag, value] :
       {std::pair{"--job-name", &options.job_name}, std::pair{"--output", &options.output},
        std::pair{"--partition", &options.partition}, std::pair{"--account", &options.account}}) {
    require_option(value->find_first_of(kBlanks) == std::string::npos, flag, *value, "write it without spaces");
  }
  if (options.command.empty()) {
    throw UsageError("the program is missing", "lockstep slurm", "name it with its arguments after the flags");
  }
  if (const auto launcher = launcher_at(options.command, 0)) check_launcher(options, *launcher);
}

std::string default_job_name(const std::vector<std::string>& command) {
  const std::string name = std::filesystem::path(command.front()).filename().string();
  return name.find_first_of(" \r\n") == std::string::npos && !name.empty() ? name : "lockstep";
}

std::string directives(const SbatchOptions& options) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty() && value != "0") text += fmt::format("#SBATCH --{}={}\n", name, value);
  };
  add("job-name", options.job_name.empty() ? default_job_name(options.command) : options.job_name);
  add("nodes", std::to_string(options.nodes));
  add("ntasks-per-node", std::to_string(options.ntasks_per_node));
  add("cpus-per-task", std::to_string(options.cpus_per_task.value_or(0)));
  add("gpus-per-node", std::to_string(options.gpus_per_node));
  add("partition", options.partition);
  add("account", options.account);
  add("time", options.time.value_or(""));
  add("mem", options.mem);
  add("output", options.output);
  text += "#SBATCH --open-mode=append\n";
  text += options.requeue ? "#SBATCH --requeue\n" : "#SBATCH --no-requeue\n";
  if (options.time && options.signal_seconds > 0) {
    text += fmt::format("#SBATCH --signal=USR1@{}\n", options.signal_seconds);
  }
  return text;
}

}  // namespace

std::string sbatch_file(const SbatchOptions& options) {
  check_options(options);
  const std::string command = started_command(options);
  std::string text = "#!/bin/bash\n" + directives(options);
  text +=
      "\n# The ranks authenticate each other with it.\n"
      "export LOCKSTEP_SECRET=${LOCKSTEP_SECRET:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')}\n";
  if (options.cpus_per_task)
    text += "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK  # srun does not take it over by itself\n";
  if (command.find("$MASTER_ADDR") != std::string::npos || command.find("$MASTER_PORT") != std::string::npos) {
    text +=
        "\n# Where the launchers meet.\n"
        "export MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)}\n"
        "export MASTER_PORT=${MASTER_PORT:-$((15000 + SLURM_JOB_ID % 10000))}\n";
  }
  text += "\nsrun" + command + "\ncode=$?\n";
  if (options.requeue) {
    text += fmt::format(
        "\n# A training that was asked to stop has saved a checkpoint and left with {}.\n"
        "if [ \"$code\" = {} ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n",
        kSavedAndStopped, kSavedAndStopped);
  }
  return text + "exit \"$code\"\n";
}

}  // namespace lockstep
