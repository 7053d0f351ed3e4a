#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/elastic/rules/host_table.h"

namespace lockstep {

/// What the coordinator of an elastic job knows, and what it has decided and its hosts have not been told yet. A value:
/// the sets of rules beside it are functions that change it, each for one question.
struct JobState {
  using Time = HostTable::Time;
  using Host = HostTable::Host;

  enum class Phase { Resuming, Gathering, Running, Asking, Probing, Over };

  struct Times {
    std::chrono::milliseconds join_timeout{600000};  ///< for MIN hosts to join, and for a host to get a place
    std::chrono::milliseconds last_call{30000};
    std::chrono::milliseconds probe_timeout{2000};
    std::chrono::milliseconds report_interval{1000};  ///< minimum time between two reports on missing hosts
    std::chrono::milliseconds keep_alive{15000};      ///< a host that is silent for longer is lost
  };

  /// What the host that takes over from a lost one knows of the job.
  struct Takeover {
    std::string story;            ///< which host is lost, and how
    std::int64_t generation = 0;  ///< of the newest generation
    std::int64_t era = 1;         ///< how many stores its ranks have lost
    int restarts = 0;
    int hosts = 1;   ///< that may come, this one among them
    int quorum = 1;  ///< as many must come

    /// More than half of the hosts of a generation that may live, the lost one among them unless it has surely ended.
    static int quorum_of(int world_hosts, bool lost_has_ended) {
      return (world_hosts - (lost_has_ended ? 1 : 0)) / 2 + 1;
    }
    /// Whether this many hosts can come.
    bool is_possible() const { return hosts >= quorum; }
  };

  /// Processes of a running generation that were lost, with their host or on it.
  struct LostMembers {
    std::int64_t generation = 0;
    std::string name;
    std::string cause;
    std::vector<int> members;
  };

  /// How far the next generation is.
  struct Gathering {
    bool short_of_hosts = true;  // since the last generation, or from the start
    Time short_since;
    std::optional<Time> enough_since;   // MIN hosts have joined
    std::optional<Time> reported_at;    // when missing hosts were last reported
    bool changed_since_report = false;  // the missing hosts have changed since then
  };

  /// Whether all hosts answer, after a rank blamed a peer for its failure.
  struct Probe {
    Time since;
    std::string story;  // of the failure
  };

  /// Which hosts are asked how their ranks stand.
  struct Asking {
    enum class Whom { Nobody, WhoMaySurvive, All };
    Whom whom = Whom::Nobody;  // also for the reports that are taken afterwards
    std::vector<HostReport> deferred;
  };

  JobState(HostEntry serving, Times limits, Time now, std::optional<Takeover> lost_one);

  /// Adds an order to the outbox.
  void send(const Host& host, HostOrder order) {
    if (!host.is_gone) orders.emplace_back(host.entry.id, std::move(order));
  }
  /// Ends the job. @param runs_elsewhere  it may continue on other hosts, without those here
  void end(bool success, const std::string& story, bool runs_elsewhere = false);
  /// Takes a host for lost that may live, behind a link that is down. If the link is up again, and this coordinator
  /// continues, the host joins again. If this one was cut off itself, and has ended, the hosts that it gave up take the
  /// rendezvous over: none of them may have ended its ranks, or forgotten another host, because of an order that was on
  /// its way.
  void give_up(Host& host, const std::string& cause, bool is_silent, Time now);
  bool may_be_cut_off(Time now) const { return hosts.may_be_cut_off(now, times.keep_alive); }
  /// Gives the host's processes numbers that no other one of this generation has.
  void number_processes(Host& host);
  /// The running generation, as an order tells it to a host.
  Generation running() const;

  const HostEntry job;  // of the host that serves; all other hosts must match it
  const Times times;
  const Time began;
  std::optional<Takeover> takeover;  // if the job had another coordinator before
  std::string moved_to;              // where the job of the hosts here runs already
  bool is_cut_off = false;           // so many hosts are silent that they may continue without this one
  Phase phase;
  HostTable hosts;
  std::int64_t generation = 0;  // of the newest generation
  std::int64_t era = 0;         // how many stores its ranks have lost
  int restarts = 0;
  int next_member = 0;  // number of the next process that joins the running generation
  Gathering gathering;
  Probe probe;
  Asking asking;
  std::vector<std::pair<std::string, HostOrder>> orders;  // each with the id of the host that must get it
  std::vector<LostMembers> lost;                          // and the others survive
};

}  // namespace lockstep
