#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/net/server/store_server.h"

namespace lockstep {

/// A job on this node only: no other launcher to agree with. It serves the store to its own ranks.
class OneNode : public NodeGroup {
 public:
  /// @param socket  path of the Unix socket to serve on
  OneNode(const LaunchPlan& plan, const std::string& socket);

  std::string store_address() const override { return server_.address().text(); }
  const std::string& secret() const override { return secret_; }
  int node_rank() const override { return 0; }

  Agreement agree() override;
  void mark_lost(int rank, const std::string& cause) override;
  void ask_for_member() override;
  bool spans_nodes() const override { return false; }
  void report_survival() override {}
  void report_no_ranks(const std::string& story) override { report_failure({story}); }
  void report_failure(const RankFailure& failure) override;
  void report_leaving(const std::string& why) override;
  void report_success() override;
  void leave() override {}
  void abort_leave() override {}

 private:
  const LaunchPlan& plan_;
  const std::string secret_;
  StoreServer server_;
  std::optional<HeldPort> port_;  // of this attempt
  int attempt_ = 0;
  int replacements_ = 0;         // of lost ranks, in all attempts
  int replacements_before_ = 0;  // those of earlier attempts
};

}  // namespace lockstep
