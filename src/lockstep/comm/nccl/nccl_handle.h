#pragma once

#include <nccl.h>

#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// An error that NCCL reported, in its own words.
class NcclError : public std::runtime_error {
 public:
  NcclError(const std::string& text, ncclResult_t result) : std::runtime_error(text), result_(result) {}
  /// True: a connection to another rank ended, as NCCL says. An error of the system is one of this host, such as a full
  /// /dev/shm, or follows from the loss of a rank: NCCL cannot tell.
  bool peer_is_lost() const { return result_ == ncclRemoteError; }

 private:
  ncclResult_t result_;
};

/// Thrown if `abort` was called meanwhile.
class NcclAborted : public std::runtime_error {
 public:
  NcclAborted() : std::runtime_error("the communicator was aborted") {}
};

/// Owns one communicator of NCCL, configured so that no call blocks: each call is polled until it is complete. After
/// `give_up`, from any thread, all waits here end.
class NcclHandle {
 public:
  /// Starts to connect, on the current device; `wait_until_up` completes it.
  NcclHandle(int rank, int size, const ncclUniqueId& id);
  /// Ends the communicator in order if that is quick, otherwise aborts it.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  void wait_until_up();
  /// Calls NCCL and waits until the call has taken effect on the host; `what` names the call in messages. Calls of
  /// several threads wait for each other: NCCL refuses one that begins before the last one has taken effect.
  /// @throws NcclError, NcclAborted
  void call(const char* what, const std::function<ncclResult_t(ncclComm_t)>& body);
  /// Throws if an operation has failed since, on the device or on the network; nothing after `give_up`.
  /// @throws NcclError
  void check();
  /// The communicator, for an abort by the caller; null if it was given up before. This object has none any more.
  ncclComm_t give_up();

 private:
  void settle(const char* what, ncclResult_t result, std::unique_lock<std::mutex>& lock, Deadline deadline);
  ncclComm_t usable() const;
  [[noreturn]] void raise(const char* what, ncclResult_t result) const;

  const int device_;
  std::mutex calls_;                   // held for a whole call
  std::mutex mutex_;                   // held for each use of the communicator, not while a call is polled
  ncclComm_t communicator_ = nullptr;  // null after `give_up`
};

ncclUniqueId new_nccl_id();

}  // namespace lockstep
