#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/net/server/key_table.h"

namespace lockstep {

/// Number of a server's connection; never used twice.
using ConnectionId = std::uint64_t;

/// A client's request that is answered later.
struct RequestId {
  ConnectionId connection = 0;
  std::uint64_t request = 0;
  friend bool operator<(const RequestId& a, const RequestId& b) {
    return a.connection != b.connection ? a.connection < b.connection : a.request < b.request;
  }
};

/// Requests that wait for keys.
///
/// A request is stored under one key that it misses, not under all of them. When that key is set, the request moves to
/// the next missing key. So setting a key costs only the requests that watch it, even if thousands of ranks wait for
/// thousands of keys.
class Waiters {
 public:
  struct Complete {
    RequestId id;
    bool wants_value = false;  ///< it wants the value of its only key
  };

  /// @param keys  at least one of them is not in `table`
  void add(RequestId id, std::vector<std::string> keys, bool wants_value, const KeyTable& table);
  /// Call it when `key` was set. Returns the requests that now have all their keys in `table`; they wait no longer.
  std::vector<Complete> on_set(const std::string& key, const KeyTable& table);
  /// Removes a request. @return  the keys that it still misses; nothing if it does not wait
  std::vector<std::string> remove(RequestId id, const KeyTable& table);
  void remove_all(ConnectionId connection);
  std::size_t count(ConnectionId connection) const;
  bool contains(RequestId id) const { return waiting_.count(id) > 0; }

 private:
  struct Waiting {
    std::vector<std::string> keys;
    std::size_t watched = 0;  // index into keys
    bool wants_value = false;
  };
  // Index of a key that `table` lacks, searched from `start` to the end and then from the beginning; keys.size() if no
  // key is missing.
  static std::size_t find_missing(const std::vector<std::string>& keys, std::size_t start, const KeyTable& table);
  void unwatch(RequestId id, const std::string& key);

  std::map<RequestId, Waiting> waiting_;
  std::unordered_map<std::string, std::vector<RequestId>> watching_;  // by key
};

}  // namespace lockstep
