#include "lockstep/data/length_grouped_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/samplers/permutation.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostBatchesTogether = 50;

std::int64_t positive_batch_size(std::int64_t batch_size) {
  if (batch_size < 1) {
    throw Error(fmt::format("batch_size {} is not positive", batch_size), "LengthGroupedSampler",
                "give the loader's batch size");
  }
  return batch_size;
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
    : LengthGroupedSampler(std::move(lengths), options,
                           replica_of("LengthGroupedSampler", options.num_replicas, options.rank)) {}

LengthGroupedSampler::LengthGroupedSampler(std::vector<std::int64_t> lengths,
                                           const LengthGroupedSamplerOptions& options, const Replica& replica)
    : Sampler("LengthGroupedSampler",
              {static_cast<std::int64_t>(lengths.size()), replica.count,
               options.drop_last ? replica.share_without_tail(static_cast<std::int64_t>(lengths.size()))
                                 : replica.padded_share(static_cast<std::int64_t>(lengths.size()))},
              options.seed),
      lengths_(std::move(lengths)),
      batch_size_(positive_batch_size(options.batch_size)),
      rank_(replica.rank) {}

void LengthGroupedSampler::do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                                      std::int64_t* out) const {
  group(seed + static_cast<std::uint64_t>(epoch));
  std::copy_n(grouped_.begin() + first, count, out);
}

std::int64_t LengthGroupedSampler::do_next_epoch(std::int64_t epoch) {
  if (!warned_) {
    log_warning(
        "LengthGroupedSampler: a second pass over epoch {} takes the samples in the same order; call "
        "set_epoch(n) before each epoch to shuffle it again",
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
  const std::int64_t batches = std::clamp<std::int64_t>(dataset_size() / batch_size_ / 4, 1, kMostBatchesTogether);
  // At most the dataset's size, so that the product cannot overflow.
  const std::int64_t part = batch_size_ > dataset_size() ? dataset_size() : batches * batch_size_;
  sort_parts(order, part, lengths_);
  grouped_.resize(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) {
    grouped_[i] = order[(rank_ + i * num_replicas()) % dataset_size()];
  }
  grouped_seed_ = seed;
}

}  // namespace lockstep
