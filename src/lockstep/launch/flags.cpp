#include "lockstep/launch/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

namespace lockstep {
namespace {

std::string pet_variable(const std::string& flag) {
  std::string name = "PET_";
  for (const char c : flag.substr(flag.rfind("--") + 2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

CLI::Option* text(CLI::App& app, const std::string& flag, std::string& value, const std::string& help) {
  CLI::Option* option = app.add_option(flag, value, help)->envname(pet_variable(flag));
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return value.empty() ? option : option->capture_default_str();
}

CLI::Option* on(CLI::App& app, const std::string& flag, bool& value, const std::string& help) {
  return app.add_flag(flag, value, help)->envname(pet_variable(flag));
}

void add_who(CLI::App& app, LaunchFlags& flags) {
  text(app, "--nnodes", flags.nnodes, "number of nodes, or MIN:MAX if nodes may join and leave while the job runs");
  text(app, "--nproc-per-node", flags.nproc_per_node, "ranks on this node: a number, auto, cpu or gpu");
  text(app, "--node-rank", flags.node_rank, "rank of this node, 0 to nnodes-1")->each([&](const std::string&) {
    flags.node_rank_given = true;
  });
  text(app, "--master-addr", flags.master_addr, "address of node 0, where the job's store listens on several nodes");
  text(app, "--master-port", flags.master_port,
       "port of the job's store; default: a free one on one node, 29500 on several; 0: a free one");
  on(app, "--standalone", flags.standalone, "run on one node, whatever the --rdzv flags say");
  text(app, "--rdzv-backend", flags.rdzv_backend, "static, or c10d: nodes get their ranks as they arrive")
      ->each([&](const std::string&) { flags.rdzv_backend_given = true; });
  text(app, "--rdzv-endpoint", flags.rdzv_endpoint, "HOST[:PORT], in place of --master-addr and --master-port");
  text(app, "--rdzv-id", flags.rdzv_id, "name of the job, the same on every node");
  text(app, "--rdzv-conf", flags.rdzv_conf,
       "KEY=VALUE,...: join_timeout, last_call_timeout, keep_alive_interval (seconds), keep_alive_max_attempt, "
       "is_host, rank");
}

void add_how(CLI::App& app, LaunchFlags& flags) {
  text(app, "--max-restarts", flags.max_restarts,
       "how many times all ranks are restarted after a failure, and how many lost ranks are replaced if the program "
       "survives lost ranks");
  on(app, "--warm-spares", flags.warm_spares,
     "keep a loaded spare process for each rank, so that ranks restart at once");
  text(app, "--monitor-interval", flags.monitor_interval,
       "seconds between two checks of the launcher that serves the store, 1 to 3; everything else is reported at once");
  text(app, "--shutdown-timeout", flags.shutdown_timeout,
       "seconds between SIGTERM and SIGKILL; default: 0.9 after a failure, 30 after a signal")
      ->envname("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  text(app, "--timeout", flags.timeout, "seconds after which a collective operation fails");
  text(app, "--cpu-affinity", flags.cpu_affinity,
       "bind ranks to cores: none, split (a block of cores each), auto (split from two cores per rank on)");
  text(app, "--ranks-as", flags.ranks_as, "what a rank is: processes");
  text(app, "--role", flags.role, "name of the ranks' role, in prefixes and ROLE_NAME");
}

void add_output(CLI::App& app, LaunchFlags& flags) {
  text(app, "--log-dir", flags.log_dir, "folder for log files; each job gets a new folder in it");
  text(app, "-r,--redirects", flags.redirects,
       "streams that go to log files: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:WHICH,...");
  text(app, "-t,--tee", flags.tee, "streams that go to log files and, prefixed by rank, to the console");
  text(app, "--trace", flags.trace,
       "file for a trace of some steps of all ranks, which rank 0 writes; ui.perfetto.dev shows it");
  text(app, "--trace-steps", flags.trace_steps, "steps to trace, FIRST-LAST, counted from 1; default: 3-12");
  text(app, "--local-ranks-filter", flags.local_ranks_filter, "local ranks whose output is shown: 0,2,...");
}

void add_program(CLI::App& app, LaunchFlags& flags) {
  on(app, "-m,--module", flags.module, "the program is a Python module: python3 -u -m");
  on(app, "--no-python", flags.no_python, "run the program directly, even if its name ends in .py");
  on(app, "--run-path", flags.run_path, "the program is a Python script, whatever its name");
}

}  // namespace

void add_launch_flags(CLI::App& app, LaunchFlags& flags) {
  add_who(app, flags);
  add_how(app, flags);
  add_output(app, flags);
  add_program(app, flags);
  app.prefix_command();
  app.callback([&app, &flags] {
    flags.command = app.remaining();
    if (!flags.command.empty() && flags.command.front() == "--") flags.command.erase(flags.command.begin());
  });
}

}  // namespace lockstep
