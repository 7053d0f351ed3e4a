#include "lockstep/parallel/backward/join_averages.h"

#include <ATen/core/grad_mode.h>

#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/end_group.h"

namespace lockstep {

// What nobody has written since is an average; after another write, as by a backward in no_sync, it may be anything.
void JoinAverages::begins(BackwardFlags& mine) {
  put_aside_.clear();
  if (!context_.join.is_on() || context_.join.divides_by_active_ranks()) return;
  const at::NoGradGuard no_grad;
  put_aside_.resize(buckets_.num_parameters());
  std::uint64_t which = 0;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    if (!averages_[i] || !buckets_.is_in_place(i)) continue;
    if (*averages_[i] != buckets_.parameter(i).grad()._version()) continue;
    put_aside_[i] = buckets_.place(i).clone();
    buckets_.take_off(i);
    which = mix_bits(which + i + 1);
  }
  mine.say(context_.facts.put_aside, static_cast<std::uint32_t>(which));
}

void JoinAverages::check(const BackwardFlags& all) {
  if (!all.differs(context_.facts.put_aside)) return;
  end_group(*context_.communicator,
            "join: the gradients that a backward had averaged were written or dropped on some ranks, but not on all, "
            "before the next backward",
            "call zero_grad() between two backwards on every rank or on none, or run all but the last backward of a "
            "step in no_sync");
}

void JoinAverages::restored() {
  for (std::size_t i = 0; i < put_aside_.size(); ++i) {
    if (!put_aside_[i].defined()) continue;
    buckets_.place(i).add_(put_aside_[i]);
    buckets_.show(i);
  }
  put_aside_.clear();
  note_averages();
}

void JoinAverages::note_averages() {
  averages_.clear();
  if (!context_.join.is_on()) return;
  averages_.resize(buckets_.num_parameters());
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    if (!queue_.is_kept(i) && buckets_.is_in_place(i)) averages_[i] = buckets_.parameter(i).grad()._version();
  }
}

}  // namespace lockstep
