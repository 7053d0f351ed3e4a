#include "lockstep/train/loop/training_progress.h"

#include <algorithm>

namespace lockstep {

std::int64_t TrainingProgress::next_window() const {
  return std::min(plan_.accumulation, plan_.micro_batches_per_epoch - micro_batch_);
}

double TrainingProgress::epochs() const {
  return static_cast<double>(epoch()) +
         static_cast<double>(micro_batch_) / static_cast<double>(plan_.micro_batches_per_epoch);
}

std::optional<Batch> TrainingProgress::next_micro_batch() {
  ++micro_batch_;
  if (!batches_) {
    batches_.emplace(loader_.begin());
  } else if (*batches_ != loader_.end()) {
    ++*batches_;
  }
  if (*batches_ == loader_.end()) return std::nullopt;
  return std::move(**batches_);
}

void TrainingProgress::end_epoch() {
  batches_.reset();
  micro_batch_ = 0;
  loader_.sampler()->set_epoch(epoch() + 1);
}

void TrainingProgress::load_state(const SamplerState& own, const SamplerState& of_rank_0) {
  batches_.reset();
  loader_.load_state(own);
  const std::int64_t largest_share = (plan_.samples + plan_.world_size - 1) / plan_.world_size;
  // Counted from the end: if the saved run had batches of another size, its position is not a multiple of this one's.
  const std::int64_t used = std::min(largest_share, plan_.micro_batches_per_epoch * plan_.rank_batch_size);
  const std::int64_t left = std::max<std::int64_t>(0, used - of_rank_0.position);
  micro_batch_ = plan_.micro_batches_per_epoch - (left + plan_.rank_batch_size - 1) / plan_.rank_batch_size;
}

}  // namespace lockstep
