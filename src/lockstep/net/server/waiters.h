#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/net/server/key_table.h"

namespace lockstep {

/// Numbers a server's connections; never used twice.
using ConnectionId = std::uint64_t;

/// A request of a client, to be answered later.
struct RequestId {
  ConnectionId connection = 0;
  std::uint64_t request = 0;
  friend bool operator<(const RequestId& a, const RequestId& b) {
    return a.connection != b.connection ? a.connection < b.connection : a.request < b.request;
  }
};

/// Requests that wait for keys.
///
/// A request is entered under one key that it misses, not under all: when that one is set, it moves on to the next that
/// is missing. So a key that is set costs only the requests that watch it, even with thousands of ranks waiting for
/// thousands of keys.
class Waiters {
 public:
  struct Complete {
    RequestId id;
    bool wants_value = false;  ///< of its only key
  };

  /// @param keys  of which at least one is not in `table`
  void add(RequestId id, std::vector<std::string> keys, bool wants_value, const KeyTable& table);
  /// To be called when `key` was set: requests of which all keys are in `table` now. They are waiters no longer.
  std::vector<Complete> on_set(const std::string& key, const KeyTable& table);
  /// Removes a request. @return  the keys it still misses; nothing where it does not wait
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
  // Index of a key that `table` lacks, looked for from `start` on and around; keys.size() where there is none.
  static std::size_t find_missing(const std::vector<std::string>& keys, std::size_t start, const KeyTable& table);
  void unwatch(RequestId id, const std::string& key);

  std::map<RequestId, Waiting> waiting_;
  std::unordered_map<std::string, std::vector<RequestId>> watching_;  // by key
};

}  // namespace lockstep
