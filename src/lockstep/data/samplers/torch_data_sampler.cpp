#include "lockstep/data/torch_data_sampler.h"

#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr const char* kTorchDataSampler = "TorchDataSampler";
constexpr const char* kStateKey = "lockstep_sampler";  // seed, epoch, position, dataset_size, num_replicas

}  // namespace

TorchDataSampler::TorchDataSampler(std::int64_t dataset_size, const DistributedSamplerOptions& share)
    : TorchDataSampler(std::make_shared<DistributedSampler>(dataset_size, share)) {}

TorchDataSampler::TorchDataSampler(std::shared_ptr<lockstep::Sampler> sampler) : shared_(std::make_shared<Shared>()) {
  if (sampler == nullptr) {
    throw Error("the sampler is null", kTorchDataSampler, "give it one of Lockstep's samplers");
  }
  shared_->sampler = std::move(sampler);
}

SamplerState TorchDataSampler::state_after(std::int64_t samples) const {
  if (samples < 0 || samples > size()) {
    throw Error(fmt::format("there is no position {}: an epoch has {} samples on this rank", samples, size()),
                kTorchDataSampler, "count the samples that the loop has taken of this epoch on this rank");
  }
  SamplerState state = shared_->has_begun ? shared_->at : sampler().state();
  state.position = samples;
  return state;
}

void TorchDataSampler::reset(NewSize new_size) {
  if (new_size.has_value() && static_cast<std::int64_t>(*new_size) != sampler().dataset_size()) {
    throw Error(fmt::format("reset({}) was called on a sampler for {} samples", *new_size, sampler().dataset_size()),
                kTorchDataSampler, "make a sampler for the dataset that has another size");
  }
  shared_->at = sampler().begin_epoch();
  shared_->has_begun = true;
}

TorchDataSampler::Request TorchDataSampler::next(std::size_t batch_size) {
  if (!shared_->has_begun) reset();
  SamplerState& at = shared_->at;
  const auto indices = sampler().indices(at, at.position, static_cast<std::int64_t>(batch_size));
  if (indices.empty()) return {};
  at.position += static_cast<std::int64_t>(indices.size());
  sampler().advance(static_cast<std::int64_t>(indices.size()));
  return std::vector<std::size_t>(indices.begin(), indices.end());
}

void TorchDataSampler::save(torch::serialize::OutputArchive& archive) const {
  const SamplerState state = sampler().state();
  archive.write(kStateKey,
                torch::tensor({static_cast<std::int64_t>(state.seed), state.epoch, state.position, state.dataset_size,
                               state.num_replicas},
                              torch::kInt64),
                /*is_buffer=*/true);
}

void TorchDataSampler::load(torch::serialize::InputArchive& archive) {
  at::Tensor saved;
  if (!archive.try_read(kStateKey, saved, /*is_buffer=*/true) || saved.numel() != 5) {
    throw Error("the archive has no position for this sampler", kTorchDataSampler,
                "load what torch::save of a lockstep::TorchDataSampler wrote");
  }
  const auto* values = saved.data_ptr<std::int64_t>();
  load_state({static_cast<std::uint64_t>(values[0]), values[1], values[2], values[3], values[4]});
}

}  // namespace lockstep
