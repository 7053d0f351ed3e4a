#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/launch/nodes/member_grants.h"
#include "lockstep/launch/nodes/outcome_signal.h"
#include "lockstep/launch/plan.h"

namespace lockstep {

/// The values on which the launchers of all nodes agreed before the ranks start.
struct Agreement {
  std::int64_t generation = 0;  ///< number of earlier starts of the ranks, whatever the reason
  int restarts = 0;             ///< how many of these followed a failure
  int nodes = 1;
  int node_rank = 0;
  int first_rank = 0;  ///< rank of local rank 0 of this node
  int world_size = 1;
  int first_member = -1;  ///< the ranks join running ones, under numbers from this one on; -1: they start together
  std::uint16_t master_port = 0;
  std::string master_addr;  ///< of the host of rank 0; empty: the one that the plan has
};

/// A failure of a rank of this node, for the other nodes.
struct RankFailure {
  std::string story;
  bool blames_a_peer = false;  ///< the rank reported that it had lost another one
  bool recurs = false;         ///< the ranks would fail alike if they were started again
  int joined = 0;              ///< processes that have taken lost ranks' places since the last start, on this node
};

/// The launchers of a job's nodes: their places, and the outcome of each start of the ranks. They meet in the job's
/// store.
class NodeGroup {
 public:
  virtual ~NodeGroup() = default;

  virtual std::string store_address() const = 0;
  virtual const std::string& secret() const = 0;
  virtual int node_rank() const = 0;
  /// Path of a file that tells the ranks where the store is once it has moved; empty if it never moves.
  virtual std::string store_file() const { return ""; }

  /// Waits until the ranks may start; also before each restart. @throws Error  if the job ends instead
  virtual Agreement agree() = 0;
  /// Reports to the ranks of all nodes, if this node serves the store, that a rank is gone; earlier than its socket
  /// shows it.
  virtual void mark_lost(int rank, const std::string& cause) = 0;
  /// A process of this node has ended well.
  virtual void note_success(int /*member*/) {}
  /// Asks for a process that takes the place of a lost rank whose loss the others survive. `grants` has the answer; a
  /// process that is granted counts as a restart.
  virtual void ask_for_member() = 0;
  /// Whether ranks on other nodes may continue after the last one of this node is lost.
  virtual bool spans_nodes() const { return true; }
  /// The ranks of this node have started. Each of `files` is there once its rank has announced that it survives the
  /// loss of others, which `report_survival` reports a little later.
  virtual void await_survival(const std::vector<std::string>& /*files*/) {}
  /// Reports that the ranks of this node survive the loss of others; or that it has such a rank again.
  virtual void report_survival() = 0;
  /// Reports that the last rank of this node that survives others is lost, and how. It is a failure of the job once no
  /// node has one.
  virtual void report_no_ranks(const std::string& story) = 0;
  /// Reports to the other nodes that a rank has failed here, and how; the first report counts.
  virtual void report_failure(const RankFailure& failure) = 0;
  /// Reports to them that this launcher ends, and why.
  virtual void report_leaving(const std::string& why) = 0;
  /// Reports to them that all ranks of this node have succeeded.
  virtual void report_success() = 0;

  /// The outcome of the ranks since `agree`.
  const OutcomeSignal& outcome() const { return outcome_; }
  /// The answers to `ask_for_member`.
  MemberGrants& grants() { return grants_; }
  /// Leaves the job, and waits briefly for the other nodes if they need this node's store.
  virtual void leave() = 0;
  /// Ends that wait at once; called from another thread.
  virtual void abort_leave() = 0;

 protected:
  OutcomeSignal outcome_;
  MemberGrants grants_;
};

}  // namespace lockstep
