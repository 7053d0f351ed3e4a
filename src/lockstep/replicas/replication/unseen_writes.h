#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

/// Which replicas may lack a write that left no trace. torch::optim::SGD writes through `Tensor::data`, and batch
/// norm's kernel writes its averages, so versions stay as they were. Such writes happen while the module trains and
/// until its next forward, in which every replica or only some may take part.
class UnseenWrites {
 public:
  explicit UnseenWrites(std::size_t replicas) : seen_(replicas, 0) {}

  /// A forward begins, on however many replicas. @param trains  something may be written in it, or before the next one
  void begin(bool trains) {
    if (trains || trained_before_) ++last_;
    trained_before_ = trains;
  }
  /// Whether the replica must copy everything; it has done so afterwards.
  bool take(std::size_t replica) { return std::exchange(seen_[replica], last_) != last_; }

 private:
  std::uint64_t last_ = 0;           // the number of forwards that trained, or followed one that did
  std::vector<std::uint64_t> seen_;  // [replica], at its last copy
  bool trained_before_ = false;
};

}  // namespace lockstep
