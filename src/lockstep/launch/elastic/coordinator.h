#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/elastic/rules/job_state.h"

namespace lockstep {

/// Decides which hosts form a generation, when the next one is formed, and when the job is over, by torchrun's rules
/// for `--nnodes MIN:MAX`. Pure: reports and the time are its input, orders its output. It uses no clock but the time
/// passed to it. What it knows is one value, `JobState`. What it decides is in three sets of rules, of which each uses
/// those before it alone: `restart_rules`, `survival_rules`, `takeover_rules`.
///
///   gathering  Hosts join. A generation begins when MAX hosts have joined, or when MIN have joined and `last_call`
///              has passed, which leaves others time to join. After a loss or a failure it begins as soon as all hosts
///              that are left are ready.
///   running    A failed rank, a lost host or a new host ends the ranks of all hosts, and gathering starts again. A
///              failure uses up a restart; a change of hosts does not. If the ranks of all hosts survive the loss of
///              others, they continue instead: a lost host's ranks are lost, and a new host's ranks join them.
///   asking     What happened depends on whether the ranks of all hosts survive others by now, and some have not
///              reported it: their launchers are asked. Or a host is silent, and what that means depends on how many
///              others are: all are asked. Reports that come meanwhile are taken after the answers.
///   probing    Ranks report that they lost a peer. The loss becomes a failure only after every host has been probed; a
///              host that does not answer is declared lost.
///   resuming   The host that served is lost, and this coordinator takes over: it awaits the hosts of the job. If too
///              few come, they cannot know whether the lost host continues with the others, and end. If the ranks of
///              all that came survive the loss of others, they continue; else those of all hosts start again.
///   over       All ranks succeeded, no restart was left, or too few hosts joined.
class Coordinator {
 public:
  using Time = JobState::Time;
  using Times = JobState::Times;
  using Takeover = JobState::Takeover;
  using LostMembers = JobState::LostMembers;

  /// @param job  entry of the host that serves; all other hosts must match it
  /// @param takeover  set if the job had another coordinator before
  Coordinator(HostEntry job, Times times, Time now, std::optional<Takeover> takeover = std::nullopt)
      : state_(std::move(job), times, now, std::move(takeover)) {}

  void take(const HostReport& report, Time now);
  void act_on_time(Time now);
  /// Ends the job: the coordinator can no longer do its work.
  void give_up(const std::string& story) { state_.end(false, story); }
  /// When `act_on_time` should be called next.
  std::optional<Time> next_time() const;

  /// Orders since the last call, each with the id of the host that must get it.
  std::vector<std::pair<std::string, HostOrder>> take_orders() { return std::exchange(state_.orders, {}); }
  /// What was lost since the last call, and the others survive.
  std::vector<LostMembers> take_lost() { return std::exchange(state_.lost, {}); }

  bool is_over() const { return state_.phase == Phase::Over; }
  bool has_hosts() const { return !state_.hosts.empty(); }

 private:
  using Phase = JobState::Phase;
  using Host = JobState::Host;

  void take_while_asking(const HostReport& report, Time now);
  void take_now(const HostReport& report, Time now);
  void take_of_generation(Host& host, const HostReport& report, Time now);
  void admit(const HostReport& report, Time now);
  void lose_contact(Host& host, const std::string& cause, bool is_silent, Time now);
  /// @param id  by value: the caller's string may belong to the lost host, which is erased here
  void lose(std::string id, const std::string& what, Time now);

  JobState state_;
};

}  // namespace lockstep
