#include "lockstep/data/length_grouped_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/samplers/permutation.h"
#include "lockstep/detail/data/sharded_order.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostBatchesTogether = 50;

std::int64_t share_of_lengths(const std::vector<std::int64_t>& lengths, const LengthGroupedSamplerOptions& options) {
  check_replica("LengthGroupedSampler", options.num_replicas, options.rank);
  if (options.batch_size < 1) {
    throw Error(fmt::format("batch_size {} is not positive", options.batch_size), "LengthGroupedSampler",
                "give the loader's batch size");
  }
  const auto samples = static_cast<std::int64_t>(lengths.size());
  const std::int64_t whole = samples / options.num_replicas;
  return options.drop_last || samples % options.num_replicas == 0 ? whole : whole + 1;
}

// Sorts each part of `part_size` samples from long to short, and moves the longest of all to the front.
void sort_parts(std::vector<std::int64_t>& order, std::int64_t part_size, const std::vector<std::int64_t>& lengths) {
  const auto longer = [&](std::int64_t a, std::int64_t b) { return lengths[a] > lengths[b]; };
  const auto size = static_cast<std::int64_t>(order.size());
  std::int64_t longest = 0;  // start of the first part with the longest sample
  for (std::int64_t begin = 0; begin < size; begin += part_size) {
    std::stable_sort(order.begin() + begin, order.begin() + std::min(begin + part_size, size), longer);
    if (longer(order[begin], order[longest])) longest = begin;
  }
  std::swap(order[0], order[longest]);
}

}  // namespace

LengthGroupedSampler::LengthGroupedSampler(std::vector<std::int64_t> lengths, LengthGroupedSamplerOptions options)
    : Sampler("LengthGroupedSampler",
              {static_cast<std::int64_t>(lengths.size()), options.num_replicas, share_of_lengths(lengths, options)},
              options.seed),
      lengths_(std::move(lengths)),
      options_(options) {}

void LengthGroupedSampler::do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                                      std::int64_t* out) const {
  group(seed + static_cast<std::uint64_t>(epoch));
  std::copy_n(grouped_.begin() + first, count, out);
}

std::int64_t LengthGroupedSampler::do_next_epoch(std::int64_t epoch) {
  if (!warned_) {
    log_warning(
        "LengthGroupedSampler: a second pass over epoch {} takes the samples in the same order; call "
        "set_epoch(n) before each epoch to shuffle anew",
        epoch);
    warned_ = true;
  }
  return epoch;
}

void LengthGroupedSampler::group(std::uint64_t seed) const {
  if (!grouped_.empty() && grouped_seed_ == seed) return;
  const at::Tensor permutation = random_permutation(dataset_size(), seed);
  const auto* const first = permutation.data_ptr<std::int64_t>();
  std::vector<std::int64_t> order(first, first + dataset_size());
  const std::int64_t batches =
      std::clamp<std::int64_t>(dataset_size() / options_.batch_size / 4, 1, kMostBatchesTogether);
  // At most the dataset's size, so that the product cannot overflow.
  const std::int64_t part = options_.batch_size > dataset_size() ? dataset_size() : batches * options_.batch_size;
  sort_parts(order, part, lengths_);
  grouped_.resize(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) {
    grouped_[i] = order[(options_.rank + i * num_replicas()) % dataset_size()];
  }
  grouped_seed_ = seed;
}

}  // namespace lockstep
