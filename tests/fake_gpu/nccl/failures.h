#pragma once

#include <nccl.h>

#include <string>

namespace fake_gpu {

/// An error that the environment asks of NCCL:
///   FAKE_NCCL_FAIL_AT     the number of the call that fails, from 1: each communicator and each operation counts
///   FAKE_NCCL_FAIL_KIND   cuda, system, internal, argument, usage or remote; the default is system
///   FAKE_NCCL_FAIL_RANK   the rank, in its communicator, on which it fails; the default is 0
///   FAKE_NCCL_FAIL_HOW    "call": the call returns it. "later", the default: what the call began ends with it, as NCCL
///                         finds errors of sockets and shared memory
///   FAKE_NCCL_STUCK_AT    the number of the operation whose kernel ends by an abort alone
struct Failure {
  ncclResult_t result = ncclSuccess;
  std::string text;
  bool later = true;
  bool is_stuck = false;  ///< no error, but the kernel waits until the communicator is aborted
};

/// Counts a call on `rank`, and returns how it is to fail: ncclSuccess if it is not.
Failure next_failure(int rank);

}  // namespace fake_gpu
