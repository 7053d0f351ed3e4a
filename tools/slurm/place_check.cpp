// Finds launchers in scripts for sbatch that would not find each other.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text/printable.h"
#include "tools/slurm/launcher_check.h"
#include "tools/slurm/started_program.h"

namespace lockstep {
namespace {

class PlaceCheck {
 public:
  PlaceCheck(const StartedProgram& started, const AskedOfSlurm& asked)
      : started_(started),
        asked_(asked),
        kind_(*started.launcher->kind),
        nodes_(asked.nodes),
        per_node_(asked.tasks_per_node) {
    nodes_ = number_among(started.options, "nodes").value_or(nodes_);
    if (const auto tasks = number_among(started.options, "ntasks"))
      per_node_ = std::max(1, *tasks / std::max(1, nodes_));
    per_node_ = number_among(started.options, "ntasks-per-node").value_or(per_node_);
  }

  std::vector<FileFinding> run() {
    if (per_node_ > 1) {
      find(fmt::format("srun starts {} {} times on each host, where one of them starts all ranks of the host",
                       kind_.name, per_node_),
           "srun --ntasks-per-node=1, and the launcher's flag for the number of ranks");
    }
    if (nodes_ > 1 && kind_.rank_flag != nullptr && !asked_.sets_places && !places_by_arrival(started_.words))
      look_at_rank();
    return std::move(findings_);
  }

 private:
  void find(const std::string& problem, const std::string& fix) { findings_.push_back({started_.line, problem, fix}); }

  std::string right_way() const {
    return fmt::format(
        "srun --ntasks-per-node=1 sh -c 'exec {} {} {} {} \"$SLURM_NODEID\" {} \"$MASTER_ADDR\" ...', after export "
        "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)",
        kind_.name, kind_.nodes_flag, nodes_, kind_.rank_flag, kind_.address_flag);
  }

  bool reads_address() const { return std::string(kind_.name) == "lockstep launch"; }

  void look_at_rank() {
    std::vector<std::string> missing;
    const bool has_file = flag_value(started_.words, "--config-file").has_value();
    const auto nodes = flag_value(started_.words, kind_.nodes_flag);
    const auto rank = flag_value(started_.words, kind_.rank_flag);
    const bool has_endpoint = flag_value(started_.words, "--rdzv-endpoint").has_value();
    if (!nodes && !has_file) missing.emplace_back(kind_.nodes_flag);
    if (!rank && flag_value(started_.words, "--rdzv-conf").value_or("").find("rank=") == std::string::npos)
      missing.emplace_back(kind_.rank_flag);
    const bool has_address = has_endpoint || has_file || (asked_.sets_address && reads_address());
    if (!flag_value(started_.words, kind_.address_flag) && !has_address) missing.emplace_back(kind_.address_flag);
    if (!missing.empty()) {
      std::string names;
      for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
      return find(fmt::format("srun starts {} on {} hosts, and it has no {}: each host would take itself for the first "
                              "or only one, and wait for the others in vain",
                              kind_.name, nodes_, names),
                  right_way());
    }
    if (rank && rank->find(kExpandedByScript) != std::string::npos) {
      find(fmt::format("the script's own shell replaces the variable of {}, on the first host, before srun starts the "
                       "launchers: each host gets one and the same number",
                       kind_.rank_flag),
           right_way());
    } else if (rank && !rank->empty() && rank->find_first_not_of("0123456789") == std::string::npos) {
      find(fmt::format("{} is {} on each of the {} hosts", kind_.rank_flag, printable(*rank), nodes_), right_way());
    }
  }

  const StartedProgram& started_;
  const AskedOfSlurm& asked_;
  const LauncherKind& kind_;
  int nodes_;
  int per_node_;
  std::vector<FileFinding> findings_;
};

}  // namespace

std::vector<FileFinding> check_places(const std::vector<ShellCommand>& commands, const AskedOfSlurm& asked) {
  std::vector<FileFinding> findings;
  for (const ShellCommand& command : commands) {
    const StartedProgram started = started_by(command);
    if (!started.by_srun || !started.launcher) continue;
    for (FileFinding& finding : PlaceCheck(started, asked).run()) findings.push_back(std::move(finding));
  }
  return findings;
}

bool starts_launcher_by_srun(const std::vector<ShellCommand>& commands) {
  return std::any_of(commands.begin(), commands.end(), [](const ShellCommand& command) {
    const StartedProgram started = started_by(command);
    return started.by_srun && started.launcher;
  });
}

}  // namespace lockstep
