#pragma once

#include <string>

#include "lockstep/net/store.h"

namespace lockstep {

/// A store that knows a key of the job. It is derived from the job's secret, and never leaves the process.
class KeyedStore {
 public:
  virtual ~KeyedStore() = default;
  /// 32 bytes, equal on all ranks of the job.
  virtual std::string job_key() const = 0;
};

/// The key that a job without a secret has, which everybody knows.
std::string job_key_of(const std::string& secret);

/// The job's key, as `store` knows it. A store inside one process, or one that is reached over a Unix socket, has no
/// secret: then only the fresh random bytes that ranks leave in the store keep strangers out (see peer_key), and only
/// this user reads them there.
std::string job_key(const Store& store);

}  // namespace lockstep
