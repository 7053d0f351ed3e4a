#pragma once

#include <nccl.h>

#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// An error that NCCL reported.
class NcclError : public std::runtime_error {
 public:
  NcclError(const std::string& text, bool peer_is_lost) : std::runtime_error(text), peer_is_lost_(peer_is_lost) {}
  /// True: a connection to another rank ended; false: the failure is here.
  bool peer_is_lost() const { return peer_is_lost_; }

 private:
  bool peer_is_lost_;
};

/// Thrown if `abort` was called meanwhile.
class NcclAborted : public std::runtime_error {
 public:
  NcclAborted() : std::runtime_error("the communicator was aborted") {}
};

/// Owns one communicator of NCCL, configured so that no call blocks: each call is polled until it is complete. `abort`,
/// from any thread, ends all waits here and the kernels on the device.
class NcclHandle {
 public:
  /// Starts to connect, on the current device; `wait_until_up` completes it.
  NcclHandle(int rank, int size, const ncclUniqueId& id);
  /// Ends the communicator in order if that is quick, otherwise aborts it.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  void wait_until_up();
  /// Calls NCCL and waits until the call has taken effect on the host; `what` names the call in messages. One thread at
  /// a time.
  /// @throws NcclError, NcclAborted
  void call(const char* what, const std::function<ncclResult_t(ncclComm_t)>& body);
  /// Throws if an operation has failed since, on the device or on the network. @throws NcclError, NcclAborted
  void check();
  void abort() noexcept;

 private:
  void settle(const char* what, ncclResult_t result, std::unique_lock<std::mutex>& lock, Deadline deadline);
  ncclComm_t usable() const;
  [[noreturn]] void raise(const char* what, ncclResult_t result) const;

  const int device_;
  std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;  // null after an abort
};

ncclUniqueId new_nccl_id();

}  // namespace lockstep
