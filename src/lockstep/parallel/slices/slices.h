#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/slices/partial_sums.h"
#include "lockstep/parallel/slices/slice_buffers.h"
#include "lockstep/parallel/slices/slice_plan.h"
#include "lockstep/parallel/slices/slice_surroundings.h"
#include "lockstep/parallel/slices/term_exchange.h"

namespace lockstep {

/// Runs the slices of this rank one after the other, and adds their gradients in the order of the slice tree.
class Slices {
 public:
  /// Collective. What is given must outlive this object. @param buffers  empty: the module has none
  Slices(std::int64_t slices, Reducer& reducer, Communicator& communicator,
         std::function<std::vector<NamedTensor>()> buffers);

  const SlicePlan& plan() const { return plan_; }
  const PartialSums& sums() const { return sums_; }
  bool is_in_slice() const { return is_in_slice_; }
  void note_forward() { had_forward_ = true; }

  /// Calls `body` for each slice of this rank. Then the gradients are averages over all slices, or, of buckets that the
  /// reducer has handed over, this rank's terms. Collective.
  /// @param update    identifies the update: see SliceSurroundings. Equal on all ranks, which compare it here or, of
  /// buckets that are handed over, in their update; with buffers always here
  /// @param are_zero  the buckets' gradients are known to be zero
  void run(std::uint64_t update, bool are_zero, const std::function<void(std::int64_t)>& body);

 private:
  void run_slice(std::uint64_t update, std::int64_t slice, const std::function<void(std::int64_t)>& body);
  void average();

  SlicePlan plan_;
  Backward& backward_;
  Communicator& communicator_;
  SliceSurroundings surroundings_;
  PartialSums sums_;
  std::optional<SliceBuffers> buffers_;
  std::vector<TermExchange> exchanges_;    // by bucket; made when they are first needed
  std::vector<std::uint8_t> contributed_;  // by parameter: some slice of this rank has a gradient
  bool is_in_slice_ = false;
  bool had_forward_ = false;
};

}  // namespace lockstep
