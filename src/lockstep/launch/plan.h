#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/flags.h"
#include "lockstep/launch/process/streams.h"

namespace lockstep {

/// How the launchers of the nodes find their ranks.
enum class NodeRanks { Given, AsTheyCome };

/// How the cores of a node are shared out among its ranks.
enum class CpuAffinity { None, Split, Auto };

/// What `lockstep run` does: its flags, checked and complete.
struct LaunchPlan {
  int nodes = 1;        ///< at most
  int min_nodes = 1;    ///< at least; less than `nodes` only where they come and go
  int local_ranks = 1;  ///< on this node
  NodeRanks node_ranks = NodeRanks::Given;
  int node_rank = 0;  ///< where they are given
  std::string master_addr;
  std::uint16_t master_port = 0;     ///< 0: a free one
  std::optional<bool> serves_store;  ///< whether this node is the one that serves the store; nothing: find out
  std::chrono::milliseconds join_timeout{0};
  std::chrono::milliseconds last_call{0};   ///< for others to come, once the least number is there
  std::chrono::milliseconds keep_alive{0};  ///< a node that is silent for longer is lost
  std::string run_id;
  std::string role;
  int max_restarts = 0;
  bool warm_spares = false;  ///< processes that are loaded already wait for a restart
  std::chrono::milliseconds monitor_interval{0};
  std::chrono::milliseconds grace_after_failure{0};  ///< from SIGTERM to SIGKILL
  std::chrono::milliseconds grace_after_signal{0};
  std::string log_dir;             ///< empty: none was asked for
  std::vector<Streams> redirects;  ///< by local rank, as the next two
  std::vector<Streams> tee;
  std::vector<bool> shown;
  CpuAffinity affinity = CpuAffinity::Auto;
  std::string collective_timeout_s;  ///< for LOCKSTEP_TIMEOUT_S; empty: not given
  std::size_t program_word = 0;      ///< index of the user's program in `command`: an interpreter may precede it
  std::vector<std::string> command;  ///< what is executed; may hold "${local_rank}"

  bool wants_log_files() const;
  /// Whether ranks may be started once more where they were started `restarts` times after a failure: after another
  /// one, or since hosts come and go.
  bool may_start_again(int restarts) const;
};

/// Checks the flags and fills in what they leave open.
/// @throws UsageError  that names the flag, its value, and what it may be
LaunchPlan make_plan(const LaunchFlags& flags);

}  // namespace lockstep
