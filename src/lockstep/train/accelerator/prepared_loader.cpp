#include "lockstep/train/prepared_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/sequential_sampler.h"
#include "lockstep/train/batch_device.h"

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

PreparedLoader::Reading::Reading(const DataLoader& loader, const LoaderShare& share,
                                 std::shared_ptr<ActiveLoaders> active)
    : world_size_(share.world_size),
      device_(share.device),
      loader_(loader.dataset(), options_of_share(loader, share), sharded_sampler(loader, share)),
      active_(std::move(active)) {
  position_.dataset_size = loader.dataset()->size();
  position_.repeats_samples = share.even_batches && !loader.options().drop_last;
}

SamplerState PreparedLoader::Reading::state() const {
  SamplerState state = loader_.state();
  if (is_within_epoch_) return state;
  if (!is_loaded_ || state.epoch != next_epoch_) state.position = 0;
  state.epoch = next_epoch_;
  return state;
}

void PreparedLoader::Reading::load_state(const SamplerState& state) {
  loader_.load_state(state);
  next_epoch_ = state.epoch;
  is_within_epoch_ = false;
  is_loaded_ = true;
}

void PreparedLoader::Reading::handed_out(std::int64_t index) {
  position_.samples_before = index * batch_size();
  position_.batches_left = loader_.size() - index - 1;
  finished();
  active_->push_back(&position_);
}

void PreparedLoader::Reading::ended() {
  is_within_epoch_ = false;
  finished();
}

void PreparedLoader::Reading::finished() {
  active_->erase(std::remove(active_->begin(), active_->end(), &position_), active_->end());
}

PreparedLoader::PreparedLoader(const DataLoader& loader, const LoaderShare& share,
                               const std::shared_ptr<ActiveLoaders>& active)
    : reading_(std::make_shared<Reading>(loader, share, active)) {}

std::int64_t PreparedLoader::size() const { return reading_->loader_.size(); }
std::int64_t PreparedLoader::total_batch_size() const { return reading_->batch_size() * reading_->world_size_; }
const std::shared_ptr<const Dataset>& PreparedLoader::dataset() const { return reading_->loader_.dataset(); }
void PreparedLoader::set_epoch(std::int64_t epoch) { reading_->next_epoch_ = epoch; }
std::int64_t PreparedLoader::next_epoch() const { return reading_->next_epoch_; }
SamplerState PreparedLoader::state() const { return reading_->state(); }
void PreparedLoader::load_state(const SamplerState& state) { reading_->load_state(state); }

PreparedLoader::Iterator PreparedLoader::begin() {
  Reading& reading = *reading_;
  reading.loader_.sampler()->set_epoch(reading.next_epoch_++);
  reading.is_within_epoch_ = true;
  reading.is_loaded_ = false;
  DataLoader::Iterator first = reading.loader_.begin();
  const std::int64_t size = reading.batch_size();
  return Iterator(reading, std::move(first), (reading.loader_.state().position + size - 1) / size - 1);
}

void PreparedLoader::skip_first_batches(std::int64_t batches) {
  const Sampler& sampler = *reading_->loader_.sampler();
  SamplerState state = sampler.state();
  state.epoch = reading_->next_epoch_;
  state.position = std::min(batches * reading_->batch_size(), sampler.size());
  load_state(state);
}

PreparedLoader::Iterator::Iterator(Reading& reading, DataLoader::Iterator inner, std::int64_t index)
    : reading_(&reading), inner_(std::move(inner)), index_(index) {
  tell();
}

PreparedLoader::Iterator& PreparedLoader::Iterator::operator++() {
  ++inner_;
  ++index_;
  tell();
  return *this;
}

void PreparedLoader::Iterator::tell() {
  if (inner_ != End{}) {
    if (!reading_->device_.is_cpu()) *inner_ = on_device(*inner_, reading_->device_);
    reading_->handed_out(index_);
  } else {
    reading_->ended();
  }
}

}  // namespace lockstep
