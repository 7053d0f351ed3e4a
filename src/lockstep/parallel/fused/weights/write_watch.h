#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace lockstep {

/// Is told before LibTorch writes to a watched parameter. Called in the thread that writes.
class WriteWatcher {
 public:
  virtual ~WriteWatcher() = default;
  /// An operation is about to write to the parameter's watched memory, by the parameter or a view of it. Afterwards the
  /// parameter may have other memory, to which the view is moved.
  virtual void before_write(std::size_t parameter) = 0;
};

/// Parameters whose memory others have, too, so that a program must not write there.
///
/// They carry a dispatch key, and so do views of them (`data()`, `detach()`, a row). LibTorch calls a function of ours
/// for that key in operations that write to an argument; all others fall through it, and cost nothing. What writes by
/// address, as `data_ptr` and accessors do, is not seen.
class WatchedWrites {
 public:
  explicit WatchedWrites(WriteWatcher& watcher) : watcher_(watcher) {}
  ~WatchedWrites() { clear(); }
  WatchedWrites(const WatchedWrites&) = delete;
  WatchedWrites& operator=(const WatchedWrites&) = delete;

  /// Watches the parameter in its present memory, and not in an earlier one any more. Its storage is its own.
  /// @param index  what the watcher knows it by
  void watch(const at::Tensor& parameter, std::size_t index);
  void clear();

 private:
  WriteWatcher& watcher_;
  std::vector<c10::Storage> storages_;  // by index
};

}  // namespace lockstep
