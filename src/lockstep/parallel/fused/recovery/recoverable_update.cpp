#include "lockstep/parallel/fused/recovery/recoverable_update.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/optim/kernels/parallel_over.h"
#include "lockstep/optim/update/gradient_memory.h"
#include "lockstep/optim/update/update_run.h"
#include "lockstep/parallel/shards/term_exchange.h"
#include "lockstep/parallel/shards/virtual_shards.h"

namespace lockstep {
namespace {

// A chunk of weights, state and gradients, and its draft, are in the cache when the draft is copied.
constexpr std::int64_t kChunkElements = 4096;

// From one buffer of a draft to the next. A processor takes a load for dependent on a store whose address has the same
// low bits, so the buffers begin at different places of a page, and not at those of the chunks.
std::size_t draft_stride_bytes(std::size_t element_bytes) {
  constexpr std::size_t kApart = 832;
  return static_cast<std::size_t>(kChunkElements) * element_bytes + kApart;
}

std::size_t draft_bytes(const std::vector<FusedBucket>& buckets) {
  std::size_t largest = 0;
  for (const FusedBucket& bucket : buckets) largest = std::max<std::size_t>(largest, bucket.weights.element_size());
  return (1 + UpdateRun::kMaxBuffers) * draft_stride_bytes(largest);
}

// As many as threads of the rank that has most of them.
int agreed_lanes(Communicator& communicator) {
  const at::Tensor threads = at::full({1}, at::get_num_threads(), at::TensorOptions().dtype(at::kInt));
  if (communicator.world_size() > 1) communicator.all_reduce(threads, ReduceOp::Max);
  return *threads.data_ptr<int>();
}

}  // namespace

// What a lane does with its chunks: `shm::UpdateLane` says when. The draft has the weights and then each buffer.
struct RecoverableUpdate::LaneChunks {
  RecoverableUpdate& all;
  const Lane& lane;
  std::byte* memory;      // of the draft
  SegmentUpdate& update;  // of the bucket whose chunks are drafted

  void draft(std::uint64_t k) const {
    const Chunk& chunk = lane.chunks[k];
    const auto element_bytes = static_cast<std::int64_t>(all.parts_.buckets[chunk.bucket].weights.element_size());
    // Pointers refer to the bucket's element 0.
    auto at = reinterpret_cast<std::uintptr_t>(memory) - static_cast<std::uintptr_t>(chunk.begin * element_bytes);
    update.weights_out = reinterpret_cast<void*>(at);
    update.range = {chunk.begin, chunk.end, {}};
    for (std::size_t b = 0; b < all.state_->buffers(chunk.bucket).size(); ++b) {
      at += draft_stride_bytes(static_cast<std::size_t>(element_bytes));
      update.range->state_out[b] = reinterpret_cast<void*>(at);
    }
    all.parts_.optimizer.update_segment(chunk.bucket, update);
  }
  void publish(std::uint64_t k) const {
    const Chunk& chunk = lane.chunks[k];
    const std::byte* from = memory;
    const auto copy = [&](const at::Tensor& to) {
      const std::size_t element_bytes = to.element_size();
      std::memcpy(static_cast<std::byte*>(to.data_ptr()) + static_cast<std::size_t>(chunk.begin) * element_bytes, from,
                  static_cast<std::size_t>(chunk.end - chunk.begin) * element_bytes);
      from += draft_stride_bytes(element_bytes);
    };
    copy(all.parts_.buckets[chunk.bucket].weights);
    for (const at::Tensor& buffer : all.state_->buffers(chunk.bucket)) copy(buffer);
  }
};

RecoverableUpdate::RecoverableUpdate(const Parts& parts, Communicator& communicator)
    : parts_(parts),
      peers_(communicator.membership().peers),
      rank_(communicator.rank()),
      state_(std::make_shared<SharedState>(parts.optimizer, parts.buckets, parts.gradients)),
      journal_(communicator, parts.gradients.num_parameters(), agreed_lanes(communicator), draft_bytes(parts.buckets)) {
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    lanes_.emplace_back();
    for (int lane = 0; lane < journal_.lanes(); ++lane) lanes_.back().push_back(cut_lane(rank, lane));
  }
  if (communicator.world_size() == 1) return;
  for (const FusedBucket& bucket : parts_.buckets) {
    terms_.emplace_back(parts_.shards, bucket.gradients, bucket.index, communicator);
  }
}

RecoverableUpdate::Lane RecoverableUpdate::cut_lane(int rank, int lane) const {
  Lane result;
  for (std::size_t b = 0; b < parts_.buckets.size(); ++b) {
    const Region& region = parts_.plan.region(b, rank);
    const std::int64_t chunks = (region.end - region.begin + kChunkElements - 1) / kChunkElements;
    const std::int64_t last = chunks * (lane + 1) / journal_.lanes();
    for (std::int64_t k = chunks * lane / journal_.lanes(); k < last; ++k) {
      const std::int64_t begin = region.begin + k * kChunkElements;
      result.chunks.push_back({b, begin, std::min(begin + kChunkElements, region.end)});
    }
    result.until.push_back(result.chunks.size());
  }
  return result;
}

void RecoverableUpdate::decide(const UpdateNote& note) { journal_.decide(number_ + 1, note); }

void RecoverableUpdate::run_lane(int rank, int lane, std::size_t bucket, SegmentUpdate update) {
  const Lane& chunks = lanes_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)];
  journal_.run(rank, lane, number_ + 1, chunks.until[bucket],
               LaneChunks{*this, chunks, journal_.draft(rank, lane), update});
}

void RecoverableUpdate::update_own(std::size_t bucket, const SegmentUpdate& update) {
  parallel_over(journal_.lanes(), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t lane = first; lane < last; ++lane) run_lane(rank_, static_cast<int>(lane), bucket, update);
  });
}

void RecoverableUpdate::end(const std::vector<std::uint8_t>& contributed) {
  ++number_;
  scalings_.clear();
  for (std::size_t b = 0; b < parts_.buckets.size(); ++b) {
    SegmentUpdate update;
    update.skip = skipped(b, contributed);
    state_->count(b, update.skip);
    parts_.optimizer.update_segment(b, update);
  }
}

std::vector<bool> RecoverableUpdate::skipped(std::size_t bucket, const std::vector<std::uint8_t>& contributed) const {
  std::vector<bool> result;
  for (const std::size_t parameter : parts_.buckets[bucket].parameters) result.push_back(contributed[parameter] == 0);
  return result;
}

UpdateNote RecoverableUpdate::finish(const Communicator& survivors) {
  const at::NoGradGuard no_grad;
  const UpdateNote note = journal_.decision(number_ + 1).value();
  std::vector<int> alive;
  std::vector<int> lost;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const auto& now = survivors.membership().peers;
    const bool is_alive = std::any_of(now.begin(), now.end(), [&](const Peer& peer) {
      return peer.global_rank == peers_[static_cast<std::size_t>(rank)].global_rank;
    });
    (is_alive ? alive : lost).push_back(rank);
  }
  std::vector<int> mine{rank_};
  for (std::size_t i = 0; i < lost.size(); ++i) {
    if (alive[i % alive.size()] == rank_) mine.push_back(lost[i]);
  }
  for (const int rank : mine) {
    for (std::size_t b = 0; b < parts_.buckets.size(); ++b) {
      if (!is_done(rank, b)) finish_bucket(rank, b, note);
    }
  }
  return note;
}

bool RecoverableUpdate::is_done(int rank, std::size_t bucket) {
  const std::vector<Lane>& lanes = lanes_[static_cast<std::size_t>(rank)];
  for (int lane = 0; lane < journal_.lanes(); ++lane) {
    const std::uint64_t until = lanes[static_cast<std::size_t>(lane)].until[bucket];
    if (!journal_.is_done(rank, lane, number_ + 1, until)) return false;
  }
  return true;
}

// The group has ended, but the memory of its gradients is as all ranks left it before the update was decided.
at::Tensor RecoverableUpdate::sum_of(int rank, std::size_t bucket) const {
  const Region& region = parts_.plan.region(bucket, rank);
  const auto& plan = parts_.shards.plan();
  at::Tensor sum = at::empty({region.end - region.begin}, parts_.buckets[bucket].gradients.options());
  add_terms(plan, terms_[bucket].from(region.begin), sum, static_cast<double>(plan.tree().shards()));
  for (const auto& [part, factor] : scalings_) {
    const std::int64_t begin = std::max(part.begin, region.begin), end = std::min(part.end, region.end);
    if (part.bucket == bucket && begin < end) sum.narrow(0, begin - region.begin, end - begin).mul_(factor);
  }
  return sum;
}

void RecoverableUpdate::finish_bucket(int rank, std::size_t bucket, const UpdateNote& note) {
  const FusedBucket& of = parts_.buckets[bucket];
  const Region& region = parts_.plan.region(bucket, rank);
  const at::Tensor sum = sum_of(rank, bucket);
  const auto first =
      reinterpret_cast<std::uintptr_t>(sum.data_ptr()) - static_cast<std::uintptr_t>(region.begin) * sum.element_size();
  void* const source = reinterpret_cast<void*>(first);
  SegmentUpdate update;
  update.gradient.sources = &source;
  element_type_of(sum.scalar_type(), update.gradient.type);
  update.gradient.factor = note.factor;
  update.weights = update.weights_out = of.weights.data_ptr();
  update.skip = skipped(bucket, note.contributed);
  for (int lane = 0; lane < journal_.lanes(); ++lane) run_lane(rank, lane, bucket, update);
}

}  // namespace lockstep
