#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/data/batch.h"

namespace lockstep {

/// Threads that make batches ahead of their use. Batches are handed out in the order of the requests, whichever thread
/// was faster. One thread owns the object and makes all calls; `load` runs in the worker threads.
class BatchPrefetcher {
 public:
  using Indices = std::vector<std::int64_t>;
  /// Makes the batch of the given dataset indices.
  using Load = std::function<Batch(const Indices&)>;

  /// Starts `num_workers` threads.
  /// @param stop_timeout  how long the destructor waits for batches that are still being made
  /// @throws Error  if the system allows no more threads
  BatchPrefetcher(int num_workers, Load load, std::chrono::milliseconds stop_timeout = std::chrono::seconds(5));
  /// A worker that does not return from `load` within `stop_timeout` is left behind: what it uses lives as long as it
  /// does, and it ends when `load` returns.
  ~BatchPrefetcher();
  BatchPrefetcher(const BatchPrefetcher&) = delete;
  BatchPrefetcher& operator=(const BatchPrefetcher&) = delete;

  /// Requests one more batch.
  void submit(Indices indices);
  /// Batches that were requested and not yet taken.
  std::size_t outstanding() const;
  /// The oldest batch that was not yet taken; there must be one.
  /// @throws the exception that `load` threw for it
  /// @throws TimeoutError  if it is not ready by `deadline`
  Batch take(Deadline deadline);
  /// Drops all outstanding batches, and does not wait for those being made.
  void cancel();

 private:
  struct Slot;
  struct Shared;
  static void work(Shared& shared);
  void stop();

  std::shared_ptr<Shared> shared_;  // outlives this object if a worker is left behind
  std::vector<std::thread> threads_;
  std::chrono::milliseconds stop_timeout_;
};

}  // namespace lockstep
