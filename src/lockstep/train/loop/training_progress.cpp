#include "lockstep/train/loop/training_progress.h"

#include <algorithm>

namespace lockstep {

TrainingProgress::TrainingProgress(std::vector<DataLoader> loaders, const TrainingPlan& plan)
    : loaders_(std::move(loaders)), plan_(plan), batches_(loaders_.size()) {}

std::int64_t TrainingProgress::next_window() const {
  return std::min(plan_.accumulation, plan_.micro_batches_per_epoch - micro_batch_);
}

double TrainingProgress::epochs() const {
  return static_cast<double>(epoch()) +
         static_cast<double>(micro_batch_) / static_cast<double>(plan_.micro_batches_per_epoch);
}

std::optional<Batch> TrainingProgress::next_micro_batch(std::size_t loader) {
  if (loader == 0) ++micro_batch_;
  DataLoader& source = loaders_[loader];
  std::optional<DataLoader::Iterator>& batches = batches_[loader];
  if (!batches) {
    batches.emplace(source.begin());
  } else if (*batches != source.end()) {
    ++*batches;
  }
  if (*batches == source.end()) return std::nullopt;
  return std::move(**batches);
}

void TrainingProgress::end_epoch() {
  micro_batch_ = 0;
  const std::int64_t next = epoch() + 1;
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    batches_[i].reset();
    loaders_[i].sampler()->set_epoch(next);
  }
}

void TrainingProgress::move_to(std::vector<DataLoader> loaders, std::int64_t epoch, std::int64_t micro_batch) {
  loaders_ = std::move(loaders);
  batches_ = std::vector<std::optional<DataLoader::Iterator>>(loaders_.size());
  micro_batch_ = micro_batch;
  for (DataLoader& loader : loaders_) {
    SamplerState state = loader.state();
    state.epoch = epoch;
    state.position = std::min(micro_batch * plan_.rank_batch_size, loader.sampler()->size());
    loader.load_state(state);
  }
}

void TrainingProgress::load_state(const SamplerState& own, const SamplerState& of_rank_0) {
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    batches_[i].reset();
    SamplerState state = own;
    if (plan_.has_slices) state.position = std::min(own.position, loaders_[i].sampler()->size());
    loaders_[i].load_state(state);
  }
  const std::int64_t largest_share = (plan_.samples + plan_.world_size - 1) / plan_.world_size;
  // Counted from the end: if the saved run had batches of another size, its position is not a multiple of this one's.
  const std::int64_t used = std::min(largest_share, plan_.micro_batches_per_epoch * plan_.rank_batch_size);
  const std::int64_t left = std::max<std::int64_t>(0, used - of_rank_0.position);
  micro_batch_ = plan_.micro_batches_per_epoch - (left + plan_.rank_batch_size - 1) / plan_.rank_batch_size;
}

}  // namespace lockstep
