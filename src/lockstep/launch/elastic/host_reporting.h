#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/elastic/host_state.h"
#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/launch/nodes/store_notifier.h"

namespace lockstep {

/// What a host reports to the coordinator, by messages that the event loop does not wait for. If the serving host is
/// lost, the next one gets them.
class HostReporting {
 public:
  /// @param state  outlives this object
  explicit HostReporting(HostState& state) : state_(state) {}

  void report(HostReport::Kind kind, const std::string& text = {});
  /// As `report`, under the state's lock.
  void report_locked(HostReport::Kind kind, const std::string& text);
  /// How the ranks stand. Under the state's lock.
  void answer_locked();
  /// A process has ended.
  void report_gone(int member, const std::string& cause);
  /// As NodeGroup's.
  void mark_lost(int member, const std::string& cause);
  void ask_for_member();
  void await_survival(const std::vector<std::string>& files);
  void report_survival();
  void report_no_ranks(const std::string& story);
  void report_failure(const RankFailure& failure);
  void report_success();

  /// Waits until all reports are sent, or cannot be any more.
  void finish(Deadline deadline) { notifier_.wait_until_done(deadline); }

 private:
  HostReport new_report(HostReport::Kind kind, const std::string& text) const;
  void post(const HostReport& report);
  void push(const HostReport& report);

  HostState& state_;
  StoreNotifier notifier_;
};

}  // namespace lockstep
