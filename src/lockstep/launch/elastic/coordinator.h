#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/elastic/messages.h"

namespace lockstep {

/// Decides which hosts form the world, when it is formed anew, and when the job is over: torchrun's rules for
/// `--nnodes MIN:MAX`. Pure: reports and the time go in, orders come out. Only its own clock counts.
///
///   gathering  hosts join. The world begins when MAX are there; or MIN, and `last_call` has passed in which others
///              could come. After a loss or a failure it begins as soon as all hosts that are left are ready.
///   running    a failed rank, a lost host or a new one ends the ranks of all hosts: gathering again. A failure uses a
///              restart; a change of hosts does not.
///   in doubt   ranks say that they lost a peer. Before that counts as a failure all hosts must answer: who does not is
///              lost.
///   over       all ranks ended well, no restart was left, or too few hosts came
class Coordinator {
 public:
  using Time = Deadline::Clock::time_point;

  struct Rules {
    std::chrono::milliseconds join_timeout{600000};  ///< for MIN hosts to come, and for a host to wait for a place
    std::chrono::milliseconds last_call{30000};
    std::chrono::milliseconds probe_timeout{2000};
    std::chrono::milliseconds tell_interval{1000};  ///< between two words on who is awaited: many come at once
  };

  /// @param job  of the host that serves: all others must be like it
  Coordinator(HostEntry job, Rules rules, Time now);

  void take(const HostReport& report, Time now);
  void act_on_time(Time now);
  /// Ends the job: the coordinator cannot do its work any more.
  void give_up(const std::string& story) { end(false, story); }
  /// When `act_on_time` should be called next.
  std::optional<Time> next_time() const;
  /// Orders since the last call, each with the id of the host that it is for.
  std::vector<std::pair<std::string, HostOrder>> take_orders();

  bool is_over() const { return phase_ == Phase::Over; }
  bool has_hosts() const { return !hosts_.empty(); }

 private:
  enum class Phase { Gathering, Running, InDoubt, Over };
  struct Host {
    HostEntry entry;
    Time since;           // when it came
    bool placed = false;  // in the world
    bool ready = true;    // no rank of it runs
    bool well = false;
    bool answered = false;
  };

  void admit(const HostReport& report, Time now);
  void fail(const std::string& story, Time now);
  void doubt(const std::string& story, Time now);
  void fail_if_all_answered(Time now);
  /// @param id  by value: the caller's may be the lost host's own, which is erased here
  void lose(std::string id, const std::string& what, Time now);
  void gather_again(const std::string& why, bool has_time, Time now);
  void begin_if_complete(Time now);
  void begin(Time now);
  void end_if_well();
  void end(bool well, const std::string& story);
  void tell(const Host& host, HostOrder order) { orders_.emplace_back(host.entry.id, std::move(order)); }
  void tell_who_is_awaited(Time now);
  void tell_to_wait(const Host& host);
  Host* find(const std::string& id);
  int count() const { return static_cast<int>(hosts_.size()); }
  bool all_ready() const;
  int placed() const;
  std::string name_of(const HostEntry& entry) const;
  std::string names(bool placed_alone = false) const;
  static std::string hosts_text(int count);
  static std::string seconds(std::chrono::milliseconds time);

  const HostEntry job_;
  const Rules rules_;
  Phase phase_ = Phase::Gathering;
  std::list<Host> hosts_;  // in the order in which they came
  std::int64_t worlds_ = 0;
  int restarts_ = 0;
  bool short_of_hosts_ = true;  // since the last world, or ever
  Time short_since_;
  std::optional<Time> enough_since_;  // MIN hosts are there
  std::optional<Time> told_at_;       // who is awaited, in this gathering
  bool untold_ = false;               // that has changed since
  Time probed_;
  std::string doubtful_story_;
  std::vector<std::pair<std::string, HostOrder>> orders_;
};

}  // namespace lockstep
