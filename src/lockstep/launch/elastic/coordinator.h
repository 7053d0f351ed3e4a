#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/elastic/rules/host_table.h"

namespace lockstep {

/// Decides which hosts form the world, when a new world is formed, and when the job is over, by torchrun's rules for
/// `--nnodes MIN:MAX`. Pure: reports and the time are its input, orders its output. It uses no clock but the time
/// passed to it.
///
///   gathering  Hosts join. The world begins when MAX hosts have joined, or when MIN have joined and `last_call` has
///              passed, which leaves others time to join. After a loss or a failure it begins as soon as all hosts that
///              are left are ready.
///   running    A failed rank, a lost host or a new host ends the ranks of all hosts, and gathering starts again. A
///              failure uses up a restart; a change of hosts does not. If the ranks of all hosts survive the loss of
///              others, they continue instead: a lost host's ranks are lost, and a new host's ranks join them.
///   asking     What happened depends on whether the ranks of all hosts survive others by now, and some have not
///              reported it: their launchers are asked. Or a host is silent, and what that means depends on how many
///              others are: all are asked. Reports that come meanwhile are taken after the answers.
///   in doubt   Ranks report that they lost a peer. The loss becomes a failure only after every host has been probed; a
///              host that does not answer is declared lost.
///   resuming   The host that served is lost, and this coordinator takes over: it awaits the hosts of the job. If too
///              few come, they cannot know whether the lost host continues with the others, and end. If the ranks of
///              all that came survive the loss of others, they continue; else those of all hosts start again.
///   over       All ranks succeeded, no restart was left, or too few hosts joined.
class Coordinator {
 public:
  using Time = Deadline::Clock::time_point;

  struct Rules {
    std::chrono::milliseconds join_timeout{600000};  ///< for MIN hosts to join, and for a host to get a place
    std::chrono::milliseconds last_call{30000};
    std::chrono::milliseconds probe_timeout{2000};
    std::chrono::milliseconds report_interval{1000};  ///< minimum time between two reports on missing hosts
    std::chrono::milliseconds keep_alive{15000};      ///< a host that is silent for longer is lost
  };

  /// What the host that takes over from a lost one knows of the job.
  struct Takeover {
    std::string story;            ///< which host is lost, and how
    std::int64_t generation = 0;  ///< of the newest world
    std::int64_t era = 1;         ///< how many stores its ranks have lost
    int restarts = 0;
    int hosts = 1;   ///< that may come, this one among them
    int quorum = 1;  ///< as many must come

    /// More than half of the hosts of a world that may live, the lost one among them unless it has surely ended.
    static int quorum_of(int world_hosts, bool lost_has_ended) {
      return (world_hosts - (lost_has_ended ? 1 : 0)) / 2 + 1;
    }
    /// Whether so many hosts can come.
    bool is_possible() const { return hosts >= quorum; }
  };

  /// @param job  entry of the host that serves; all other hosts must match it
  /// @param takeover  set if the job had another coordinator before
  Coordinator(HostEntry job, Rules rules, Time now, std::optional<Takeover> takeover = std::nullopt);

  void take(const HostReport& report, Time now);
  void act_on_time(Time now);
  /// Ends the job: the coordinator can no longer do its work.
  void give_up(const std::string& story) { end(false, story); }
  /// When `act_on_time` should be called next.
  std::optional<Time> next_time() const;
  /// Processes of a running world that were lost, with their host or on it.
  struct LostMembers {
    std::int64_t generation = 0;
    std::string name;
    std::string cause;
    std::vector<int> members;
  };

  /// Orders since the last call, each with the id of the host that must get it.
  std::vector<std::pair<std::string, HostOrder>> take_orders();

  /// What was lost since the last call, and the others survive.
  std::vector<LostMembers> take_lost() { return std::exchange(lost_, {}); }

  bool is_over() const { return phase_ == Phase::Over; }
  bool has_hosts() const { return !hosts_.empty(); }

 private:
  enum class Phase { Resuming, Gathering, Running, Asking, InDoubt, Over };
  using Host = HostTable::Host;

  void admit(const HostReport& report, Time now);
  void fail(const std::string& story, Time now);
  void doubt(const std::string& story, Time now);
  void fail_if_all_answered(Time now);
  /// @param id  by value: the caller's string may belong to the lost host, which is erased here
  void lose(std::string id, const std::string& what, Time now);
  void give_up(Host& host, const std::string& cause, bool is_silent, Time now);
  std::string cause_of_loss(const HostEntry& entry, const std::string& cause) const;
  static bool is_silent_loss(const HostReport& report);
  void take_back(const std::string& id);
  bool may_be_cut_off(Time now) const { return hosts_.may_be_cut_off(now, rules_.keep_alive); }
  // A job whose ranks survive the loss of others: coordinator_survival.cpp.
  bool goes_on() const;
  bool must_ask_before(const HostReport& report) const;
  bool must_ask_all_before(const HostReport& report) const;
  void ask_before(const HostReport& report, Time now);
  void take_while_asking(const HostReport& report, Time now);
  bool ends_the_job(const HostReport& report) const;
  void take_held(Time now);
  void go_on_without(const Host& lost, const std::string& what);
  void bereave(Host& host, const std::string& story, Time now);
  void grant_member(Host& host);
  void let_in(Host& host);
  void take_members(Host& host);
  void let_in_who_waits();
  void note(const std::string& text, const std::string& except = {});

  // After another coordinator was lost: coordinator_takeover.cpp.
  void resume(const HostReport& report, Time now);
  void take_while_resuming(Host& host, const HostReport& report);
  void settle_if_complete(Time now);
  void go_on_from_here();
  void move_to(const std::string& address);

  void gather_again(const std::string& why, bool has_time, Time now);
  void begin_if_complete(Time now);
  void begin(Time now);
  void end_if_all_succeeded();
  void end(bool success, const std::string& story, bool runs_elsewhere = false);
  void send(const Host& host, HostOrder order) {
    if (!host.is_gone) orders_.emplace_back(host.entry.id, std::move(order));
  }
  void report_missing_hosts(Time now);
  void send_wait(const Host& host);
  static std::string hosts_text(int count);
  static std::string seconds(std::chrono::milliseconds time);

  // For those that a quorum does not need. Hosts notice a silent server up to one heartbeat (3 s at most) after each
  // other, look for up to 2 s whether it has ended, and connect within 1 s.
  static constexpr std::chrono::seconds kForTheRest{6};
  static constexpr std::chrono::seconds kToMeet{10};

  const HostEntry job_;
  const Rules rules_;
  std::optional<Takeover> takeover_;
  std::string moved_to_;     // where the job of the hosts here runs already
  bool is_cut_off_ = false;  // so many that they may continue without this one
  Phase phase_;
  HostTable hosts_;
  std::int64_t worlds_ = 0;
  std::int64_t era_ = 0;
  int restarts_ = 0;
  bool short_of_hosts_ = true;  // since the last world, or from the start
  Time short_since_;
  std::optional<Time> enough_since_;   // MIN hosts have joined
  std::optional<Time> reported_at_;    // when missing hosts were last reported in this gathering
  bool changed_since_report_ = false;  // the missing hosts have changed since then
  Time probed_;
  std::string doubtful_story_;
  std::vector<HostReport> held_;  // that came while hosts are asked
  enum class Asked { Nobody, WhoMaySurvive, All };
  Asked asked_ = Asked::Nobody;  // while hosts are asked, and for the reports that are taken afterwards
  int next_member_ = 0;          // number of the next process that joins the running world
  std::vector<std::pair<std::string, HostOrder>> orders_;
  std::vector<LostMembers> lost_;
};

}  // namespace lockstep
