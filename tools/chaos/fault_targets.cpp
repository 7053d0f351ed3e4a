#include "tools/chaos/fault_targets.h"

#include <algorithm>

namespace lockstep {
namespace {

// After this many changes of the metrics a process that joined has the training's state for certain.
constexpr int kChangesUntilSettled = 2;

}  // namespace

void FaultTargets::note_steps() {
  for (auto& [pid, changes] : joined_) ++changes;
}

bool FaultTargets::is_member(const ChildOfLauncher& process) const {
  return given_up_.count(process.pid) == 0 && (!process.is_successor || joined_.count(process.pid) > 0);
}

bool FaultTargets::has_state(const ChildOfLauncher& process) const {
  const auto found = joined_.find(process.pid);
  if (given_up_.count(process.pid) > 0) return false;
  return !process.is_successor || (found != joined_.end() && found->second >= kChangesUntilSettled);
}

std::vector<JobOnHosts::Process> FaultTargets::members() const {
  std::vector<JobOnHosts::Process> found;
  for (const JobOnHosts::Process& each : job_.processes()) {
    if (is_member(each)) found.push_back(each);
  }
  return found;
}

std::vector<JobOnHosts::Process> FaultTargets::processes(Fault fault) const {
  const auto all = job_.processes();
  std::vector<JobOnHosts::Process> found;
  for (const JobOnHosts::Process& each : all) {
    const auto remains = [&](const auto& other) { return other.pid != each.pid && has_state(other); };
    const bool is_hit = fault == Fault::Spare ? !is_member(each) && given_up_.count(each.pid) == 0 : is_member(each);
    if (is_hit && std::any_of(all.begin(), all.end(), remains)) found.push_back(each);
  }
  return found;
}

std::vector<int> FaultTargets::hosts(Fault fault) const {
  const auto all = job_.processes();
  const auto is_there = [&](int host) {
    return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.host == host && has_state(each); });
  };
  std::vector<int> found;
  const std::vector<int> running = job_.running_hosts();
  for (const int host : running) {
    if (fault == Fault::Cut && running.size() < 3 && job_.serves_rendezvous(host)) continue;
    const auto remains = [&](const auto& other) { return other.host != host && has_state(other); };
    if (is_there(host) && std::any_of(all.begin(), all.end(), remains)) found.push_back(host);
  }
  return found;
}

}  // namespace lockstep
