#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// A rank whose connection ended without a goodbye: it crashed, was killed, or its host went away. Or one that is only
/// silent, and may be heard of again: its process or its host is stopped for a while.
struct LostRank {
  int rank = 0;         ///< in the whole job
  std::string host;     ///< name of the host it ran on
  std::string cause;    ///< what is known: "connection closed", "no heartbeat for 5.0 s", ...
  bool silent = false;  ///< no reason to give up before a timeout
};

/// Small key-value memory that all ranks of a job share; they meet and tell each other addresses and failures through
/// it. Keys and values are bytes. All calls are thread-safe, and each is atomic. What one rank sets, every rank sees at
/// once.
///
/// Every wait has a deadline. Errors name the server's address and the key.
class Store {
 public:
  virtual ~Store() = default;

  /// Stores `value` under `key`, in place of any value before.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The value of `key`; waits until somebody sets it.
  /// @throws TimeoutError  at the deadline, naming the key
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
  /// The value of `key`, or nothing where it is not set. Does not wait.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  /// The values of `keys`, in their order, of one moment or a few: fewer requests than one for each.
  virtual std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) = 0;
  /// Adds `delta` to the number under `key` (0 where it is not set) and returns the sum. Stored as decimal text.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;
  /// Sets `desired` where the value is `expected`; an `expected` that is empty also matches a key that is not set.
  /// Returns the value that stands afterwards.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  /// Removes `key`; true where it was set.
  virtual bool delete_key(const std::string& key) = 0;
  /// Waits until all `keys` are set. @throws TimeoutError  naming the keys that are missing
  virtual void wait(const std::vector<std::string>& keys, Deadline deadline) = 0;
  virtual std::int64_t num_keys() = 0;

  /// Ranks that the server saw leave without a goodbye or fall silent, in the order in which it saw them. A rank that
  /// was only silent (LostRank::silent) is taken off when it is heard of again.
  virtual std::vector<LostRank> lost_ranks() = 0;

  /// Leaves the job in good order, so that this rank is not taken for lost; the rank that serves the store also waits,
  /// until the deadline, for the others to leave. To be called once, on the store that the rendezvous returned; nothing
  /// is done on a store that is only a part of one.
  virtual void finish(Deadline /*deadline*/) {}
};

}  // namespace lockstep
