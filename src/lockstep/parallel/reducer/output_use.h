#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace lockstep {

/// Whether a backward goes through an output of one forward. The graph behind the outputs owns it; when that is gone
/// without a backward, the forward counts as unused: the rank has left a batch out, or has only evaluated.
class OutputUse {
 public:
  /// @param unused  counts the forwards without a backward
  explicit OutputUse(std::shared_ptr<std::atomic<std::uint64_t>> unused) : unused_(std::move(unused)) {}
  ~OutputUse() {
    if (!is_used_) ++*unused_;
  }
  OutputUse(const OutputUse&) = delete;
  OutputUse& operator=(const OutputUse&) = delete;

  void note() { is_used_ = true; }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> unused_;
  std::atomic<bool> is_used_{false};
};

}  // namespace lockstep
