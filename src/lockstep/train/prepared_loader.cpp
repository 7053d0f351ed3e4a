#include "lockstep/train/prepared_loader.h"

#include <fmt/format.h>

#include <algorithm>
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

// What `shuffle` made is replaced by a share of the same; a sampler that somebody chose is not thrown away.
std::shared_ptr<Sampler> sharded_sampler(const DataLoader& loader, const LoaderShare& share) {
  const Sampler* whole = loader.sampler().get();
  const bool shuffle = dynamic_cast<const RandomSampler*>(whole) != nullptr;
  if (!shuffle && dynamic_cast<const SequentialSampler*>(whole) == nullptr) {
    refuse_loader("the loader has a sampler of its own",
                  "leave the sampler out and say `shuffle`, or shard the data yourself and do not prepare the loader");
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
  options.shuffle = false;  // the sampler does it
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

PreparedLoader::PreparedLoader(const DataLoader& loader, const LoaderShare& share,
                               std::shared_ptr<ActiveLoaders> active)
    : world_size_(share.world_size),
      loader_(loader.dataset(), options_of_share(loader, share), sharded_sampler(loader, share)),
      position_(std::make_unique<LoaderPosition>()),
      active_(std::move(active)) {
  position_->dataset_size = dataset()->size();
  position_->repeats_samples = share.even_batches && !loader.options().drop_last;
}

PreparedLoader::PreparedLoader(PreparedLoader&& other) noexcept = default;

PreparedLoader::~PreparedLoader() { finished(); }

void PreparedLoader::finished() {
  if (!active_ || !position_) return;
  active_->erase(std::remove(active_->begin(), active_->end(), position_.get()), active_->end());
}

PreparedLoader::Iterator PreparedLoader::begin() {
  loader_.sampler()->set_epoch(next_epoch_++);
  DataLoader::Iterator first = loader_.begin();
  const std::int64_t taken = loader_.state().position;
  return Iterator(this, std::move(first), (taken + batch_size() - 1) / batch_size() - 1);
}

void PreparedLoader::load_state(const SamplerState& state) {
  loader_.load_state(state);
  next_epoch_ = state.epoch;
}

void PreparedLoader::skip_first_batches(std::int64_t batches) {
  SamplerState state = loader_.sampler()->state();
  state.epoch = next_epoch_;
  state.position = std::min(batches * batch_size(), loader_.sampler()->size());
  load_state(state);
}

void PreparedLoader::handed_out(std::int64_t index) {
  position_->samples_before = index * batch_size();
  position_->batches_left = size() - index - 1;
  finished();
  active_->push_back(position_.get());
}

PreparedLoader::Iterator::Iterator(PreparedLoader* loader, DataLoader::Iterator inner, std::int64_t index)
    : loader_(loader), inner_(std::move(inner)), index_(index) {
  if (inner_ != End{}) loader_->handed_out(index_);
}

PreparedLoader::Iterator& PreparedLoader::Iterator::operator++() {
  ++inner_;
  ++index_;
  if (inner_ != End{}) {
    loader_->handed_out(index_);
  } else {
    loader_->finished();
  }
  return *this;
}

}  // namespace lockstep
