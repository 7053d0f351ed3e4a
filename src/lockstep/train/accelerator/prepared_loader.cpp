#include "lockstep/detail/train/prepared_loader.h"

#include <algorithm>
#include <utility>

#include "lockstep/train/accelerator/loader_reading.h"
#include "lockstep/train/batch_device.h"

namespace lockstep {

PreparedLoader::PreparedLoader(const DataLoader& loader, const LoaderShare& share,
                               const std::shared_ptr<ActiveLoaders>& active)
    : reading_(std::make_shared<LoaderReading>(loader, share, active)) {}

std::int64_t PreparedLoader::size() const { return reading_->loader().size(); }
std::int64_t PreparedLoader::total_batch_size() const { return reading_->batch_size() * reading_->world_size(); }
const std::shared_ptr<const Dataset>& PreparedLoader::dataset() const { return reading_->loader().dataset(); }
void PreparedLoader::set_epoch(std::int64_t epoch) { reading_->set_next_epoch(epoch); }
std::int64_t PreparedLoader::next_epoch() const { return reading_->next_epoch(); }
SamplerState PreparedLoader::state() const { return reading_->state(); }
void PreparedLoader::load_state(const SamplerState& state) { reading_->load_state(state); }

PreparedLoader::Iterator PreparedLoader::begin() {
  DataLoader::Iterator first = reading_->begin();
  const std::int64_t size = reading_->batch_size();
  return Iterator(reading_, std::move(first), (reading_->loader().state().position + size - 1) / size - 1);
}

void PreparedLoader::skip_first_batches(std::int64_t batches) {
  const Sampler& sampler = *reading_->loader().sampler();
  SamplerState state = sampler.state();
  state.epoch = reading_->next_epoch();
  state.position = std::min(batches * reading_->batch_size(), sampler.size());
  load_state(state);
}

PreparedLoader::Iterator::Iterator(const std::shared_ptr<LoaderReading>& reading, DataLoader::Iterator inner,
                                   std::int64_t index)
    : reading_(reading.get()), inner_(std::move(inner)), index_(index) {
  const auto leave = [loader = std::weak_ptr<LoaderReading>(reading), pass = reading->passes()](const void*) {
    if (const auto still = loader.lock()) still->left(pass);
  };
  in_use_ = std::shared_ptr<const void>(reading_, leave);
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
    if (!reading_->device().is_cpu()) *inner_ = on_device(*inner_, reading_->device());
    reading_->handed_out(index_);
  } else {
    reading_->ended();
  }
}

}  // namespace lockstep
