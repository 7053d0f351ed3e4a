#pragma once

#include <cstddef>
#include <exception>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/replicas/replica_device.h"

namespace lockstep {

/// An exception of a replica whose own type cannot carry more text.
class ReplicaError : public Error {
 public:
  ReplicaError(const std::string& what, const std::string& where, std::exception_ptr cause)
      : Error(what, where, "see what the module's forward does with this chunk"), cause_(std::move(cause)) {}
  /// The original exception.
  const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  std::exception_ptr cause_;
};

/// Rethrows a replica's exception with the replica's number and device in its text. Errors, their kinds and LibTorch's
/// exceptions keep their type; others become a ReplicaError.
/// @param action  "forward" or "backward"
[[noreturn]] void rethrow_from_replica(const std::exception_ptr& failure, const char* action, std::size_t replica,
                                       const ReplicaDevice& device);

}  // namespace lockstep
