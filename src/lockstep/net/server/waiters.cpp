#include "lockstep/net/server/waiters.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep {

std::size_t Waiters::find_missing(const std::vector<std::string>& keys, std::size_t start, const KeyTable& table) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t index = (start + i) % keys.size();
    if (table.find(keys[index]) == nullptr) return index;
  }
  return keys.size();
}

void Waiters::add(RequestId id, std::vector<std::string> keys, bool wants_value, const KeyTable& table) {
  const std::size_t watched = find_missing(keys, 0, table);
  watching_[keys.at(watched)].push_back(id);
  waiting_[id] = {std::move(keys), watched, wants_value};
}

std::vector<Waiters::Complete> Waiters::on_set(const std::string& key, const KeyTable& table) {
  const auto found = watching_.find(key);
  if (found == watching_.end()) return {};
  const std::vector<RequestId> woken = std::move(found->second);
  watching_.erase(found);
  std::vector<Complete> complete;
  for (const RequestId id : woken) {
    Waiting& waiting = waiting_.at(id);
    waiting.watched = find_missing(waiting.keys, waiting.watched, table);
    if (waiting.watched == waiting.keys.size()) {
      complete.push_back({id, waiting.wants_value});
      waiting_.erase(id);
    } else {
      watching_[waiting.keys[waiting.watched]].push_back(id);
    }
  }
  return complete;
}

void Waiters::unwatch(RequestId id, const std::string& key) {
  const auto found = watching_.find(key);
  std::vector<RequestId>& ids = found->second;
  ids.erase(std::remove_if(ids.begin(), ids.end(), [id](RequestId other) { return !(other < id) && !(id < other); }),
            ids.end());
  if (ids.empty()) watching_.erase(found);
}

std::vector<std::string> Waiters::remove(RequestId id, const KeyTable& table) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return {};
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  unwatch(id, waiting.keys[waiting.watched]);
  std::vector<std::string> missing;
  std::copy_if(waiting.keys.begin(), waiting.keys.end(), std::back_inserter(missing),
               [&table](const std::string& key) { return table.find(key) == nullptr; });
  return missing;
}

void Waiters::remove_all(ConnectionId connection) {
  for (auto next = waiting_.lower_bound({connection, 0});
       next != waiting_.end() && next->first.connection == connection;) {
    unwatch(next->first, next->second.keys[next->second.watched]);
    next = waiting_.erase(next);
  }
}

std::size_t Waiters::count(ConnectionId connection) const {
  return static_cast<std::size_t>(
      std::distance(waiting_.lower_bound({connection, 0}), waiting_.lower_bound({connection + 1, 0})));
}

}  // namespace lockstep
