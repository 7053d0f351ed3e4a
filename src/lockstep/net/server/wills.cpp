#include "lockstep/net/server/wills.h"

namespace lockstep {

void Wills::heard(ConnectionId connection, Time now) {
  const auto found = made_.find(connection);
  if (found != made_.end()) found->second.last = now;
}

std::optional<Wills::Will> Wills::take(ConnectionId connection) {
  const auto found = made_.find(connection);
  if (found == made_.end()) return std::nullopt;
  Will will = std::move(found->second.will);
  made_.erase(found);
  return will;
}

std::vector<Wills::Will> Wills::take_silent(Time now) {
  std::vector<Will> silent;
  for (auto made = made_.begin(); made != made_.end();) {
    if (now - made->second.last <= made->second.will.limit) {
      ++made;
      continue;
    }
    silent.push_back(std::move(made->second.will));
    made = made_.erase(made);
  }
  return silent;
}

void Wills::forgive(std::chrono::nanoseconds pause) {
  for (auto& [connection, made] : made_) made.last += std::chrono::duration_cast<Time::duration>(pause);
}

}  // namespace lockstep
