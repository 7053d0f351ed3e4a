#pragma once

#include <string>
#include <vector>

#include "tools/slurm/sbatch_file.h"
#include "tools/slurm/shell_commands.h"

namespace lockstep {

/// What a script asks sbatch for, as far as it concerns the launchers that it starts.
struct AskedOfSlurm {
  int nodes = 1;
  int tasks_per_node = 1;
  std::string signal;         ///< the value of --signal; empty: none
  int signal_line = 0;        ///< where it stands
  bool sets_places = false;   ///< by PET_NODE_RANK or a similar variable, which launchers read
  bool sets_address = false;  ///< by MASTER_ADDR, which `lockstep launch` reads
};

/// What goes wrong with the launchers that srun starts on the hosts of a job: no place for each host, several of them
/// on one host.
std::vector<FileFinding> check_places(const std::vector<ShellCommand>& commands, const AskedOfSlurm& asked);

/// Whether the warning that a script asks for arrives at the ranks: it goes to the wrong processes, or to a launcher or
/// shell that dies of it. `harmless` says of a command that it starts no training.
std::vector<FileFinding> check_warning(const std::vector<ShellCommand>& commands, const AskedOfSlurm& asked,
                                       bool (*is_harmless)(const std::string& word));

/// Whether a command of the script starts a launcher by srun.
bool starts_launcher_by_srun(const std::vector<ShellCommand>& commands);

}  // namespace lockstep
