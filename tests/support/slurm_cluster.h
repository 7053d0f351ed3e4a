#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {

/// A Slurm cluster of a test's own on this machine: munged, slurmctld and a slurmd for each node, in a folder that goes
/// with the object. Its nodes, node1, node2…, have 4 processors each, whatever the machine has.
class SlurmCluster {
 public:
  /// Why a cluster is impossible here; nothing if it is possible.
  static std::optional<std::string> why_not();

  explicit SlurmCluster(int nodes);
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  /// Variables that make srun, sbatch and scontrol talk to this cluster, and that let ranks meet: its nodes' names lead
  /// nowhere, since all are this machine.
  std::map<std::string, std::optional<std::string>> changes() const;
  /// What the daemons wrote, for a test that failed.
  std::string log() const;

 private:
  void write_configuration(int nodes);

  TemporaryFolder folder_;
  std::vector<std::unique_ptr<RunningProgram>> daemons_;
};

}  // namespace lockstep
