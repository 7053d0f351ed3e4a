#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Counts this rank's synchronised forwards without a backward since the ranks last met, in a backward or in a step. If
/// the numbers differ, a rank has left out a batch: nothing shows whether it takes another one instead, or is one step
/// behind the others from now on. That is a warning, and no error, because a rank may evaluate alone.
class UnusedForwards {
 public:
  /// @param unused_forwards  BackwardContext's
  explicit UnusedForwards(std::shared_ptr<const std::atomic<std::uint64_t>> unused_forwards)
      : unused_(std::move(unused_forwards)) {}

  /// Since `take`.
  std::uint64_t count() const { return *unused_ - before_; }
  /// The same, and starts over.
  std::uint64_t take();
  /// "made 1 forward without a backward since the last step"
  static std::string text_of(std::uint64_t forwards, const char* since);
  /// The numbers differ: warns, on rank 0, the first time. Collective over all ranks.
  /// @param made  what this rank has done. @param takes_part  by rank
  void warn(Communicator& communicator, const std::string& made, const std::vector<bool>& takes_part);

 private:
  std::shared_ptr<const std::atomic<std::uint64_t>> unused_;
  std::uint64_t before_ = 0;
  bool has_warned_ = false;  // equal on all ranks
};

}  // namespace lockstep
