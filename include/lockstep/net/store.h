#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// A rank whose connection ended without a goodbye (it crashed, was killed, or its host became unreachable), or a rank
/// that is only silent and may answer again (its process or host is stopped for a while).
struct LostRank {
  int rank = 0;         ///< rank in the whole job
  std::string host;     ///< name of the host it ran on
  std::string cause;    ///< what is known: "connection closed", "no heartbeat for 5.0 s", ...
  bool silent = false;  ///< true: may still answer, so no reason to give up before a timeout
};

/// Small key-value memory that all ranks of a job share. Through it ranks meet, and exchange addresses and reports of
/// failures. Keys and values are bytes. All calls are thread-safe, and each is atomic. A value that one rank sets is
/// visible to all ranks at once.
///
/// Every wait has a deadline. Errors name the server's address and the key.
class Store {
 public:
  virtual ~Store() = default;

  /// Stores `value` under `key` and replaces any earlier value.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The value of `key`; waits until a rank sets it.
  /// @throws TimeoutError  at the deadline, naming the key
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
  /// The value of `key`, or nothing if it is not set. Does not wait.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  /// The values of `keys`, in the order of `keys`. They may be read at slightly different moments. Needs fewer requests
  /// than one `try_get` for each.
  virtual std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) = 0;
  /// Adds `delta` to the number under `key` (0 if it is not set) and returns the sum. Stored as decimal text.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;
  /// Sets `desired` if the current value is `expected`; an empty `expected` also matches a key that is not set. Returns
  /// the value after the call.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  /// Removes `key`; true if it was set.
  virtual bool delete_key(const std::string& key) = 0;
  /// Waits until all `keys` are set. @throws TimeoutError  naming the keys that are missing
  virtual void wait(const std::vector<std::string>& keys, Deadline deadline) = 0;
  virtual std::int64_t num_keys() = 0;

  /// Ranks that left without a goodbye or fell silent, in the order in which the server noticed them. A rank that was
  /// only silent (LostRank::silent) is removed from the list when it answers again.
  virtual std::vector<LostRank> lost_ranks() = 0;

  /// Leaves the job in order, so that this rank is not taken for lost. The rank that serves the store also waits, until
  /// the deadline, for the others to leave. Call it once, on the store that the rendezvous returned. On a store that is
  /// only a part of another one it does nothing.
  virtual void finish(Deadline /*deadline*/) {}
};

}  // namespace lockstep
