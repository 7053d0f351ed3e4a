#pragma once

#include <nccl.h>

#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// What NCCL says went wrong.
class NcclError : public std::runtime_error {
 public:
  NcclError(const std::string& text, bool peer_is_lost) : std::runtime_error(text), peer_is_lost_(peer_is_lost) {}
  /// A connection to another rank ended; else the trouble is here.
  bool peer_is_lost() const { return peer_is_lost_; }

 private:
  bool peer_is_lost_;
};

/// Thrown where `abort` came in between.
class NcclAborted : public std::runtime_error {
 public:
  NcclAborted() : std::runtime_error("the communicator was aborted") {}
};

/// Owns one communicator of NCCL, made so that no call blocks: each is polled until it is through, and `abort`, from
/// any thread, ends all waiting here and the kernels on the device.
class NcclHandle {
 public:
  /// Begins to come up, on the current device; `wait_until_up` ends it.
  NcclHandle(int rank, int size, const ncclUniqueId& id);
  /// Ends it in good order where that goes quickly, else aborts.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  void wait_until_up();
  /// Calls NCCL and waits until the call has taken effect on the host; `what` is for messages. One thread at a time.
  /// @throws NcclError, NcclAborted
  void call(const char* what, const std::function<ncclResult_t(ncclComm_t)>& body);
  /// Whether something has gone wrong since, on the device or on the way. @throws NcclError, NcclAborted
  void check();
  void abort() noexcept;

 private:
  void settle(const char* what, ncclResult_t result, std::unique_lock<std::mutex>& lock, Deadline deadline);
  ncclComm_t usable() const;
  [[noreturn]] void raise(const char* what, ncclResult_t result) const;

  const int device_;
  std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;  // null once aborted
};

ncclUniqueId new_nccl_id();

}  // namespace lockstep
