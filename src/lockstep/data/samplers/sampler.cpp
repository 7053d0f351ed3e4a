#include "lockstep/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {

Sampler::Sampler(std::string name, Shape shape, std::uint64_t seed)
    : name_(std::move(name)),
      dataset_size_(shape.dataset_size),
      num_replicas_(shape.num_replicas),
      size_(shape.size),
      seed_(seed) {
  if (dataset_size_ > 0) return;
  throw Error(fmt::format("cannot sample from a dataset of {} samples", dataset_size_), name_,
              "give a dataset that is not empty: check the path and the filters that made it");
}

void Sampler::set_epoch(std::int64_t epoch) {
  if (epoch < 0) throw Error(fmt::format("epoch {} is negative", epoch), name_, "count epochs from 0");
  if (!fresh_ || epoch != epoch_) position_ = 0;
  epoch_ = epoch;
  fresh_ = true;
}

std::vector<std::int64_t> Sampler::indices(const SamplerState& of, std::int64_t first, std::int64_t count) const {
  first = std::clamp<std::int64_t>(first, 0, size_);
  std::vector<std::int64_t> out(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, size_ - first)));
  if (!out.empty()) do_indices(of.seed, of.epoch, first, static_cast<std::int64_t>(out.size()), out.data());
  return out;
}

SamplerState Sampler::begin_epoch() {
  if (!fresh_) {
    epoch_ = do_next_epoch(epoch_);
    position_ = 0;
  }
  fresh_ = false;
  return state();
}

void Sampler::advance(std::int64_t count) {
  if (!fresh_) position_ = std::min(position_ + count, size_);
}

void Sampler::load_state(const SamplerState& state) {
  if (state.dataset_size != dataset_size_ || state.num_replicas != num_replicas_) {
    throw Error(fmt::format("the saved position is for {} samples over {} replicas, but this sampler has {} over {}",
                            state.dataset_size, state.num_replicas, dataset_size_, num_replicas_),
                name_, "resume with the dataset and the world size of the saved run, or start the epoch again");
  }
  if (state.epoch < 0 || state.position < 0 || state.position > size_) {
    throw Error(fmt::format("there is no position {} in epoch {}: an epoch has {} samples here", state.position,
                            state.epoch, size_),
                name_, "load a state that state() of a sampler like this one gave");
  }
  seed_ = state.seed;
  epoch_ = state.epoch;
  position_ = state.position;
  fresh_ = true;
}

}  // namespace lockstep
