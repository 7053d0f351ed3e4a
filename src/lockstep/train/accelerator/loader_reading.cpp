#include "lockstep/train/accelerator/loader_reading.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/sequential_sampler.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_loader(const std::string& what, const std::string& fix) {
  throw Error(what, "Accelerator::prepare", fix);
}

// The sampler made by `shuffle` is replaced by a share of its order. A sampler that the program chose is not replaced.
std::shared_ptr<Sampler> sharded_sampler(const DataLoader& loader, const LoaderShare& share) {
  const Sampler* whole = loader.sampler().get();
  const bool shuffle = dynamic_cast<const RandomSampler*>(whole) != nullptr;
  if (!shuffle && dynamic_cast<const SequentialSampler*>(whole) == nullptr) {
    refuse_loader("the loader has a sampler of its own",
                  "leave the sampler out and set `shuffle`, or shard the data yourself and do not prepare the loader");
  }
  const std::int64_t size = loader.dataset()->size();
  if (share.even_batches) {
    DistributedSamplerOptions even;
    even.num_replicas = share.world_size;
    even.rank = share.rank;
    even.shuffle = shuffle;
    even.seed = whole->seed();
    even.drop_last = loader.options().drop_last;
    return std::make_shared<DistributedSampler>(size, even);
  }
  ExactDistributedSamplerOptions exact;
  exact.num_replicas = share.world_size;
  exact.rank = share.rank;
  exact.shuffle = shuffle;
  exact.seed = whole->seed();
  return std::make_shared<ExactDistributedSampler>(size, exact);
}

DataLoaderOptions options_of_share(const DataLoader& loader, const LoaderShare& share) {
  DataLoaderOptions options = loader.options();
  options.shuffle = false;  // the sampler shuffles
  if (share.split_batches) {
    if (options.batch_size % share.world_size != 0) {
      refuse_loader(fmt::format("split_batches: a batch of {} cannot be split among {} ranks", options.batch_size,
                                share.world_size),
                    "make the batch size a multiple of the number of ranks");
    }
    options.batch_size /= share.world_size;
  }
  return options;
}

}  // namespace

LoaderReading::LoaderReading(const DataLoader& loader, const LoaderShare& share, std::shared_ptr<ActiveLoaders> active)
    : rank_(share.rank),
      world_size_(share.world_size),
      device_(share.device),
      loader_(loader.dataset(), options_of_share(loader, share), sharded_sampler(loader, share)),
      active_(std::move(active)) {
  position_.dataset_size = loader.dataset()->size();
  position_.repeats_samples = share.even_batches && !loader.options().drop_last;
}

SamplerState LoaderReading::state() const {
  SamplerState state = loader_.state();
  if (is_within_epoch_) return state;
  if (!is_loaded_ || state.epoch != next_epoch_) state.position = 0;
  state.epoch = next_epoch_;
  return state;
}

DataLoader::Iterator LoaderReading::begin() {
  loader_.sampler()->set_epoch(next_epoch_++);
  is_within_epoch_ = true;
  is_loaded_ = false;
  ++passes_;
  taken_ = loader_.state().position;
  return loader_.begin();
}

void LoaderReading::load_state(const SamplerState& state) {
  loader_.load_state(state);
  next_epoch_ = state.epoch;
  is_within_epoch_ = false;
  is_loaded_ = true;
  taken_ = -1;  // the next batch of a loop that continues does not begin here
}

void LoaderReading::handed_out(std::int64_t index) {
  const std::int64_t taken = loader_.state().position;
  position_.samples_before = index * batch_size();
  position_.samples = taken_ < 0 ? -1 : taken - taken_;
  if (taken_ >= 0) taken_ = taken;
  position_.batches_left = loader_.size() - index - 1;
  active_->returned(position_);
}

void LoaderReading::ended() {
  is_within_epoch_ = false;
  left();
}

void LoaderReading::left(std::int64_t pass) {
  if (pass == passes_) left();
}

void LoaderReading::left() {
  if (!active_->left(position_) || position_.batches_left > 0) return;
  // Samples were dealt to the ranks one by one.
  const std::int64_t own = loader_.sampler()->size();
  const std::int64_t last = (own - 1) * world_size_ + rank_;
  active_->ended = {own, position_.repeats_samples && last >= position_.dataset_size ? 1 : 0};
}

}  // namespace lockstep
