// Reducer: several synchronised backwards of one step while ranks join.
//
// A backward adds to the averages that an earlier one left in `grad`. Without a join that is right: the average of
// equal values is the value. A rank without inputs counts as zeros, though, so the earlier averages would shrink with
// every further backward of the step, as they do in PyTorch. They are put aside, and added to the new averages.
#include <ATen/core/grad_mode.h>

#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {

// What nobody has written since is an average; after another write, as by a backward in no_sync, it may be anything.
void Reducer::put_averages_aside() {
  put_aside_.clear();
  if (!join_.is_on() || join_.divides_by_active_ranks()) return;
  const at::NoGradGuard no_grad;
  put_aside_.resize(parameters_.size());
  std::uint64_t which = 0;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    if (!averages_[i] || !buckets_.is_in_place(i)) continue;
    if (*averages_[i] != buckets_.parameter(i).grad()._version()) continue;
    put_aside_[i] = buckets_.place(i).clone();
    buckets_.take_off(i);
    which = mix_bits(which + i + 1);
  }
  flags_.set_put_aside(static_cast<std::uint32_t>(which));
}

void Reducer::check_put_aside() {
  if (!flags_.put_aside_differs()) return;
  end_group(*communicator_,
            "join: the gradients that a backward had averaged were written or dropped on some ranks, but not on all, "
            "before the next backward",
            "call zero_grad() between two backwards on every rank or on none, or run all but the last backward of a "
            "step in no_sync");
}

void Reducer::add_put_aside() {
  for (std::size_t i = 0; i < put_aside_.size(); ++i) {
    if (!put_aside_[i].defined()) continue;
    buckets_.place(i).add_(put_aside_[i]);
    buckets_.show(i);
  }
  put_aside_.clear();
  note_averages();
}

void Reducer::note_averages() {
  averages_.clear();
  if (!join_.is_on()) return;
  averages_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_left(i) && buckets_.is_in_place(i)) averages_[i] = buckets_.parameter(i).grad()._version();
  }
}

}  // namespace lockstep
