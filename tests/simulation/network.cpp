#include "tests/simulation/network.h"

#include <algorithm>

namespace lockstep::simulation {

Time Network::delay(int from_host, int to_host) {
  Random& random = simulation_.random();
  const Time now = simulation_.now();
  Time delay = from_host == to_host ? random.time(microseconds(10), microseconds(80))
                                    : random.time(microseconds(100), microseconds(1500));
  if (now < slow_until_) delay += random.time(Time(0), most_);
  if (from_host == to_host) return delay;
  for (const int host : {from_host, to_host}) {
    const auto cut = cut_until_.find(host);
    if (cut != cut_until_.end() && now < cut->second) delay += cut->second - now;
  }
  return delay;
}

void Network::cut(int host, Time time) {
  Time& until = cut_until_[host];
  until = std::max(until, simulation_.now() + time);
}

void Network::slow_down(Time time, Time most) {
  slow_until_ = simulation_.now() + time;
  most_ = most;
}

void Network::hold(int messages, Time time) {
  to_hold_ = messages;
  hold_ = time;
}

Time Network::held(int from_host, int to_host) {
  if (to_hold_ == 0 || from_host == to_host) return Time(0);
  --to_hold_;
  return hold_;
}

bool Network::is_cut(int host) const {
  const auto cut = cut_until_.find(host);
  return cut != cut_until_.end() && simulation_.now() < cut->second;
}

void Points::pass(Process& process) {
  process.check();
  ++passed_;
  const auto now = std::find(planned_.begin(), planned_.end(), passed_);
  if (now == planned_.end()) return;
  planned_.erase(now);
  process.kill();
  process.check();
}

}  // namespace lockstep::simulation
