#include "tests/support/slurm_cluster.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "lockstep/base/processor/topology.h"
#include "lockstep/launch/nodes/free_port.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string program_path(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"}) {
    if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return "";
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? "" : entry->pw_name;
}

void require_text(RunningProgram& program, const std::string& text) {
  if (program.wait_for(text, Deadline::after(std::chrono::seconds(30)))) return;
  throw std::runtime_error("a daemon did not say \"" + text + "\" but:\n" + program.out() + program.err());
}

}  // namespace

std::optional<std::string> SlurmCluster::why_not() {
  for (const char* name : {"munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol"}) {
    if (program_path(name).empty()) return std::string(name) + " is not installed (scripts/setup --test does)";
  }
  if (user_name().empty()) return "this user has no name";
  return std::nullopt;
}

SlurmCluster::SlurmCluster(int nodes) {
  write_configuration(nodes);
  const auto path = [this](const char* name) { return folder_ / name; };
  daemons_.push_back(std::make_unique<RunningProgram>(
      std::vector<std::string>{program_path("munged"), "--foreground", "--socket=" + path("open/munge.socket"),
                               "--key-file=" + path("munge/key"), "--log-file=" + path("munge/log"),
                               "--pid-file=" + path("open/munge.pid"), "--seed-file=" + path("munge/seed")}));
  require_text(*daemons_.back(), "Starting munge");
  while (!fs::exists(path("open/munge.socket")) &&
         daemons_.back()->wait_for_more(Deadline::after(std::chrono::seconds(10)))) {
  }
  daemons_.push_back(
      std::make_unique<RunningProgram>(std::vector<std::string>{program_path("slurmctld"), "-D"}, changes()));
  require_text(*daemons_.back(), "Running as primary controller");
  for (int node = 1; node <= nodes; ++node) {
    daemons_.push_back(std::make_unique<RunningProgram>(
        std::vector<std::string>{program_path("slurmd"), "-D", "-N", "node" + std::to_string(node)}, changes()));
    require_text(*daemons_.back(), "slurmd started");
  }
}

SlurmCluster::~SlurmCluster() = default;

std::map<std::string, std::optional<std::string>> SlurmCluster::changes() const {
  return {{"SLURM_CONF", folder_ / "slurm.conf"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"OMP_NUM_THREADS", "1"},
          {"OPENBLAS_NUM_THREADS", "1"}};
}

std::string SlurmCluster::log() const {
  std::string text;
  for (const auto& daemon : daemons_) text += daemon->out() + daemon->err();
  return text;
}

void SlurmCluster::write_configuration(int nodes) {
  // munge wants its key in a folder that is closed to others, and its socket in one that is open to them.
  for (const char* name : {"munge", "open", "state"}) fs::create_directory(folder_ / name);
  fs::permissions(folder_ / ".", fs::perms(0755));
  fs::permissions(folder_ / "munge", fs::perms::owner_all);
  fs::permissions(folder_ / "open", fs::perms(0755));
  std::ofstream(folder_ / "munge/key") << "a key that is as secret as this test needs it to be";
  fs::permissions(folder_ / "munge/key", fs::perms::owner_read);

  const std::string host = host_name();
  const std::string base = folder_ / "";
  std::ofstream file(folder_ / "slurm.conf");
  file << "ClusterName=lockstep\nSlurmctldHost=" << host << "(127.0.0.1)\nSlurmctldPort=" << free_port()
       << "\nSlurmUser=" << user_name() << "\nSlurmdUser=" << user_name()
       << "\nAuthType=auth/munge\nAuthInfo=socket=" << base
       << "open/munge.socket\nCryptoType=crypto/munge\nStateSaveLocation=" << base << "state\nSlurmdSpoolDir=" << base
       << "spool-%n\nSlurmctldPidFile=" << base << "slurmctld.pid\nSlurmdPidFile=" << base
       << "slurmd-%n.pid\nProctrackType=proctrack/linuxproc\n"
       << "TaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n"
       << "MpiDefault=none\nSwitchType=switch/none\nJobAcctGatherType=jobacct_gather/none\n"
       << "AccountingStorageType=accounting_storage/none\nSlurmdParameters=config_overrides\nKillWait=5\n"
       << "SchedulerParameters=sched_interval=1,bf_interval=1\n";
  for (int node = 1; node <= nodes; ++node) {
    file << "NodeName=node" << node << " NodeHostname=" << host << " NodeAddr=127.0.0.1 Port=" << free_port()
         << " CPUs=4\n";
  }
  file << "PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP\n";
}

}  // namespace lockstep
