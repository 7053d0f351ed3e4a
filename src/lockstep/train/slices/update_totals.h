#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/slices/slice_tree.h"

namespace lockstep {

/// Sums over the samples of one update, or of a part of it.
struct UpdateTotals {
  double loss = 0;
  std::int64_t count = 0;  ///< labels in the loss
  std::int64_t samples = 0;
  double operations = 0;  ///< as total_flos counts them

  void add(const UpdateTotals& more) {
    loss += more.loss;
    count += more.count;
    samples += more.samples;
    operations += more.operations;
  }
};

/// A rank's part of an update.
struct PartOfUpdate {
  UpdateTotals totals;
  std::vector<UpdateTotals> slices;  ///< with slices: of each of them, in place of `totals`
  int stop_signal = 0;               ///< a signal that asks to stop, if this rank has received one
};

/// The sums of all ranks, equal on each, and whether any has received a signal. Collective. @param group  null: one
/// process
PartOfUpdate add_over_ranks(const PartOfUpdate& own, Communicator* group);
/// The same with slices, added in the order of their tree: the bits do not depend on the number of ranks.
PartOfUpdate add_over_slices(const PartOfUpdate& own, const SliceTree& tree, Communicator* group);

}  // namespace lockstep
