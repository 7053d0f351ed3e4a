#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/net/store.h"

namespace lockstep {

/// Another process listens at the address that a server should use.
class AddressInUseError : public Error {
 public:
  using Error::Error;
};

/// The connection to the store ended: the process that serves it ended, or cannot be reached.
class StoreLostError : public Error {
 public:
  using Error::Error;
};

/// The error of a wait that reached its deadline while `keys` were not set. It names the first few of them, and the
/// lost ranks, which may be the reason.
TimeoutError missing_keys_error(const std::vector<std::string>& keys, const std::string& where,
                                const std::vector<LostRank>& lost);

/// "rank 3 on host-b (connection closed)", comma-separated.
std::string describe(const std::vector<LostRank>& lost);

}  // namespace lockstep
