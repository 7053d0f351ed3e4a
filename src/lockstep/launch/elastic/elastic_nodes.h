#pragma once

#include <string>
#include <thread>
#include <vector>

#include "lockstep/launch/elastic/host_reporting.h"
#include "lockstep/launch/elastic/host_state.h"
#include "lockstep/launch/elastic/server_side.h"
#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/launch/nodes/wait_notice.h"

namespace lockstep {

/// This launcher's side of a job whose hosts join and leave: it joins, and obeys the coordinator's orders, which a
/// thread of its own receives. Node ranks follow the order in which hosts joined, the serving host first.
class ElasticNodes : public NodeGroup {
 public:
  /// Connects. @throws Error, TimeoutError  if that fails
  /// @param store_file  path of a file that tells this host's ranks where the store is once it has moved
  ElasticNodes(const LaunchPlan& plan, std::string store_file);
  ~ElasticNodes() override;
  ElasticNodes(const ElasticNodes&) = delete;
  ElasticNodes& operator=(const ElasticNodes&) = delete;

  std::string store_address() const override;
  const std::string& secret() const override { return secret_; }
  int node_rank() const override { return node_rank_; }
  std::string store_file() const override { return store_file_; }
  Agreement agree() override;
  void mark_lost(int member, const std::string& cause) override { reporting_.mark_lost(member, cause); }
  void note_success(int member) override;
  void ask_for_member() override { reporting_.ask_for_member(); }
  void await_survival(const std::vector<std::string>& files) override { reporting_.await_survival(files); }
  void report_survival() override { reporting_.report_survival(); }
  void report_no_ranks(const std::string& story) override { reporting_.report_no_ranks(story); }
  void report_failure(const RankFailure& failure) override { reporting_.report_failure(failure); }
  void report_leaving(const std::string& why) override;
  void report_success() override { reporting_.report_success(); }
  void leave() override;
  void abort_leave() override;

 private:
  void enter();
  void listen();
  void take(const HostOrder& order);
  void begin(const Generation& generation);
  void continue_here(const HostOrder& order);
  Generation await_generation();
  void lose_server(const std::string& cause);
  void leave_store(Deadline deadline);

  const LaunchPlan& plan_;
  const std::string store_file_;
  const std::string secret_;
  int node_rank_ = 0;
  ServerSide server_side_;
  HostState state_;
  std::thread listener_;
  WaitNotice notice_;
  HostReporting reporting_;  // declared last, because its thread uses the others
};

}  // namespace lockstep
