#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

/// The arguments of `lockstep run`, before they are checked. Names and defaults are torchrun's; each flag `--some-flag`
/// also has the environment variable PET_SOME_FLAG, which counts if the flag is not given.
struct LaunchFlags {
  std::string nnodes = "1:1";
  std::string nproc_per_node = "1";
  std::string node_rank = "0";
  std::string master_addr = "127.0.0.1";
  std::string master_port;  ///< empty: a free port on one node, 29500 on several
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id = "none";
  std::string rdzv_conf;
  bool standalone = false;
  std::string max_restarts = "0";
  bool warm_spares = false;
  std::string monitor_interval = "0.1";
  std::string shutdown_timeout;
  std::string role = "default";
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string local_ranks_filter;
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  std::string ranks_as = "processes";
  std::string cpu_affinity = "auto";
  std::string timeout;
  std::string trace;
  std::string trace_steps;
  bool node_rank_given = false;
  bool rdzv_backend_given = false;
  std::vector<std::string> command;  ///< the program and its arguments
};

/// Declares the flags on `app`. The first word that is not a flag is the program; it and its arguments are stored
/// unchanged in `flags.command`.
void add_launch_flags(CLI::App& app, LaunchFlags& flags);

}  // namespace lockstep
