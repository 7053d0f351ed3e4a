#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/flags.h"
#include "lockstep/launch/process/streams.h"

namespace lockstep {

/// How the launchers of the nodes get their ranks.
enum class NodeRanks { Given, ByArrival };

/// How the cores of a node are divided among its ranks.
enum class CpuAffinity { None, Split, Auto };

/// The plan of `lockstep run`: its flags, checked and completed.
struct LaunchPlan {
  int nodes = 1;        ///< the most
  int min_nodes = 1;    ///< the least; below `nodes` only if nodes join and leave
  int local_ranks = 1;  ///< on this node
  NodeRanks node_ranks = NodeRanks::Given;
  int node_rank = 0;  ///< if node ranks are given
  std::string master_addr;
  std::uint16_t master_port = 0;     ///< 0: a free port
  std::optional<bool> serves_store;  ///< whether this node serves the store; nothing: to be found out
  std::chrono::milliseconds join_timeout{0};
  std::chrono::milliseconds last_call{0};       ///< for more nodes to join, once MIN have joined
  std::chrono::milliseconds keep_alive{10000};  ///< a node that is silent for longer is lost
  std::string run_id;
  std::string role;
  int max_restarts = 0;
  bool warm_spares = false;  ///< loaded processes wait for a restart
  std::chrono::milliseconds monitor_interval{0};
  std::chrono::milliseconds grace_after_failure{0};  ///< from SIGTERM to SIGKILL
  std::chrono::milliseconds grace_after_signal{0};
  std::string log_dir;             ///< empty: no logs were requested
  std::vector<Streams> redirects;  ///< by local rank, like the next two
  std::vector<Streams> tee;
  std::vector<bool> shown;
  CpuAffinity affinity = CpuAffinity::Auto;
  std::string collective_timeout_s;  ///< for LOCKSTEP_TIMEOUT_S; empty: not given
  std::string trace_file;            ///< absolute; empty: no trace
  std::string trace_steps;           ///< empty: not given
  std::size_t program_word = 0;      ///< index of the user's program in `command`, which may start with an interpreter
  std::vector<std::string> command;  ///< the command to execute; may contain "${local_rank}"

  bool wants_log_files() const;
  /// Whether ranks that were already started again `restarts` times after failures may be started once more: after
  /// another failure, or because hosts join and leave.
  bool may_start_again(int restarts) const;
};

/// Checks the flags and fills in the values that they leave open.
/// @throws UsageError  that names the flag, its value, and the valid values
LaunchPlan make_plan(const LaunchFlags& flags);

}  // namespace lockstep
