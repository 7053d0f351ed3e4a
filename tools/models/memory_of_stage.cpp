// The memory of ranks and hosts in each stage: what they share out, and what a host has once.
#include <algorithm>
#include <numeric>

#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/reducer/bucket_layout.h"
#include "tools/models/gathered_units.h"
#include "tools/models/memory_estimate.h"

namespace lockstep {
namespace {

std::int64_t divided(std::int64_t bytes, int ranks) { return (bytes + ranks - 1) / ranks; }

std::vector<BucketLayout> buckets_of(const ModelMemory& model) {
  std::vector<GradientSize> sizes;
  for (const std::int64_t bytes : model.parameter_bytes) sizes.push_back({bytes, c10::kFloat});
  return make_buckets(sizes, BucketCaps::of_shares());
}

// The slots that stage 2's buckets use in turn: each is as long as the longest of its buckets.
std::int64_t pool_of_rank(const ModelMemory& model) {
  std::vector<std::int64_t> slots(FuseOptions().slots);
  std::size_t turn = 0;
  for (const BucketLayout& bucket : buckets_of(model)) {
    std::int64_t& slot = slots[turn++ % slots.size()];
    slot = std::max(slot, bucket.bytes);
  }
  return std::accumulate(slots.begin(), slots.end(), std::int64_t{0});
}

// The bf16 copies of all weights that have one.
std::int64_t copies_of(const ModelMemory& model) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < model.has_copy.size(); ++i) {
    if (model.has_copy[i]) bytes += model.parameter_bytes[i] / 2;
  }
  return bytes;
}

std::vector<std::int64_t> parts_of(const ModelMemory& model) {
  return unit_parts(model.parameter_bytes, model.units, model.has_copy);
}

// Weights that a rank gathers in stage 3, at most at a time.
std::int64_t gathered_by_rank(const ModelMemory& model) {
  return GatheredUnits(buckets_of(model), model.units, parts_of(model)).most_bytes();
}

// How often what is gathered lies in a host's memory: its ranks have it together. One host has one copy of the weights,
// of which nothing is freed.
std::int64_t gathered_copies_of_host(int hosts) { return hosts > 1 ? 1 : 0; }

}  // namespace

MemoryParts memory_of_rank(const ModelMemory& model, std::int64_t optimizer_bytes, int stage, int world_size) {
  MemoryParts rank;
  rank.weights = stage >= 3 ? divided(model.weights + copies_of(model), world_size) : model.weights;
  if (stage == 1 || stage == 2) rank.weights += copies_of(model);
  rank.gradients = stage >= 2 ? divided(model.weights, world_size) : model.weights;
  rank.optimizer = model.parameters * optimizer_bytes;
  if (stage >= 1) rank.optimizer = divided(rank.optimizer, world_size);
  if (stage >= 2) rank.buckets = pool_of_rank(model);
  if (stage >= 3) rank.buckets += gathered_by_rank(model);
  rank.activations = stage == 0 ? model.activations : model.without_casts;
  return rank;
}

MemoryParts memory_of_host(const ModelMemory& model, std::int64_t optimizer_bytes, int stage, int hosts,
                           int ranks_per_host) {
  const std::int64_t ranks = ranks_per_host;
  const std::int64_t state = model.parameters * optimizer_bytes;
  MemoryParts host;
  host.activations = ranks * (stage == 0 ? model.activations : model.without_casts);
  if (stage == 0) {
    host.weights = ranks * model.weights;
  } else if (stage >= 3 && hosts > 1) {
    host.weights = divided(model.weights + copies_of(model), hosts);
  } else {
    host.weights = model.weights + copies_of(model);
  }
  host.optimizer = stage == 0 ? ranks * state : divided(state, hosts);
  if (stage <= 1) host.gradients = ranks * model.weights;
  // One host's update reads gradients where they lie. Otherwise owners keep the sums that messages bring.
  const bool has_sums = ranks * hosts > 1 && (stage >= 2 || (stage == 1 && hosts > 1));
  if (has_sums) host.gradients += divided(model.weights, hosts);
  if (stage >= 2) host.buckets = ranks * pool_of_rank(model);
  if (stage >= 3) host.buckets += gathered_copies_of_host(hosts) * gathered_by_rank(model);
  return host;
}

}  // namespace lockstep
