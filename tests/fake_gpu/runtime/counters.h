#pragma once

#include <atomic>

namespace fake_gpu {

/// What a program asked of the devices. A test reads them by the name in counters.cpp, with `fake_gpu_counter`.
struct Counters {
  std::atomic<long> host_waits{0};     ///< calls in which the host waited for a stream, an event or a device
  std::atomic<long> queries{0};        ///< of a stream or an event, which do not wait
  std::atomic<long> launches{0};       ///< kernels, one for each operator
  std::atomic<long> copies{0};         ///< by cudaMemcpy and its kin, and cudaMemset
  std::atomic<long> events{0};         ///< recorded
  std::atomic<long> stream_waits{0};   ///< a stream was made to wait for an event
  std::atomic<long> allocations{0};    ///< of device memory
  std::atomic<long> bytes{0};          ///< of device memory, of all devices, now
  std::atomic<long> peak_bytes{0};     ///< the most that `bytes` was
  std::atomic<long> pinned_bytes{0};   ///< of page-locked host memory, now
  std::atomic<long> nccl_calls{0};     ///< operations of NCCL; each operation of a group counts
  std::atomic<long> nccl_launches{0};  ///< kernels of NCCL: a group is one
  std::atomic<long> communicators{0};  ///< of NCCL, made
  std::atomic<long> nccl_ends{0};      ///< communicators of NCCL that were aborted or destroyed, at the end of that
};

Counters& counters();

}  // namespace fake_gpu
