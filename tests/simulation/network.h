#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "tests/simulation/process.h"

namespace lockstep::simulation {

/// How long messages between hosts take. Links can be cut for a while, which delays what is sent; nothing is lost, as
/// on connections that the hosts repeat.
class Network {
 public:
  explicit Network(Simulation& simulation) : simulation_(simulation) {}

  /// For a message that is sent now.
  Time delay(int from_host, int to_host);
  /// The host's link to all others.
  void cut(int host, Time time);
  /// From now on, for `time`, each message takes up to `most` longer.
  void slow_down(Time time, Time most);

  /// The next `messages` of collective calls between hosts, and what follows them on their ways, stand still for
  /// `time`, as on a connection that waits to repeat what a link had lost.
  void hold(int messages, Time time);
  /// How much longer a message of a collective call takes that is sent now.
  Time held(int from_host, int to_host);
  bool is_cut(int host) const;

  /// A process was stopped, or a connection was bad, so somebody may wait for a timeout from now on.
  void allow_timeouts() { allows_timeouts_ = true; }
  bool allows_timeouts() const { return allows_timeouts_; }

 private:
  Simulation& simulation_;
  std::map<int, Time> cut_until_;
  Time slow_until_{0};
  Time most_{0};
  int to_hold_ = 0;
  Time hold_{0};
  bool allows_timeouts_ = false;
};

/// Messages of one sender to one receiver arrive in the order in which they were sent.
class OrderedWay {
 public:
  /// When a message that is sent now arrives, as a delay from now.
  Time arrival(Time now, Time delay) {
    last_ = std::max(last_ + Time(1), now + delay);
    return last_ - now;
  }

 private:
  Time last_{0};
};

/// The moments at which a fault may be planned: before and after each message that a process sends or gets.
class Points {
 public:
  /// The process at the n-th point from now kills itself.
  void kill_at(int n) { planned_.push_back(passed_ + n); }
  /// To be called by a process that is at such a moment.
  void pass(Process& process);
  bool has_planned() const { return !planned_.empty(); }

 private:
  std::int64_t passed_ = 0;
  std::vector<std::int64_t> planned_;
};

}  // namespace lockstep::simulation
