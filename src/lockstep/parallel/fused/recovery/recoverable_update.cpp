#include "lockstep/parallel/fused/recovery/recoverable_update.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/optim/kernels/parallel_over.h"
#include "lockstep/optim/update/gradient_memory.h"
#include "lockstep/optim/update/update_run.h"

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
  for (const FusedBucket& bucket : buckets) largest = std::max<std::size_t>(largest, bucket.gradients.element_size());
  return UpdateJournal::draft_bytes((1 + UpdateRun::kMaxBuffers) * draft_stride_bytes(largest));
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
    for (std::size_t b = 0; b < all.parts_.state.buffers(chunk.bucket).size(); ++b) {
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
    for (const at::Tensor& buffer : all.parts_.state.buffers(chunk.bucket)) copy(buffer);
  }
};

LastingMemory::Lanes RecoverableUpdate::lanes_for(const std::vector<FusedBucket>& buckets, std::size_t parameters,
                                                  Communicator& communicator) {
  return {agreed_lanes(communicator), UpdateJournal::note_bytes(parameters), draft_bytes(buckets)};
}

RecoverableUpdate::RecoverableUpdate(const Parts& parts, std::shared_ptr<LastingMemory> memory,
                                     const MemoryHosts& hosts, const Communicator& communicator)
    : parts_(parts),
      memory_(std::move(memory)),
      place_(hosts.place()),
      ranks_here_(hosts.ranks_here()),
      crew_(crew_of(place_, ranks_here_)),
      number_(memory_->header().number.load()) {
  const std::vector<Peer>& all = communicator.membership().peers;
  for (const int rank : hosts.here()) peers_.push_back(all[static_cast<std::size_t>(rank)]);
}

RecoverableUpdate::Crew RecoverableUpdate::crew_of(int place, int ranks) const {
  Crew crew{UpdateJournal(memory_, place, ranks), {}};
  for (int each = 0; each < ranks; ++each) {
    crew.lanes.emplace_back();
    for (int lane = 0; lane < memory_->lanes(); ++lane) crew.lanes.back().push_back(cut_lane(each, lane, ranks));
  }
  return crew;
}

// The last one may end behind the bucket. There is room for that.
Region RecoverableUpdate::part_of(std::size_t bucket, int place, int ranks) const {
  const std::int64_t share = memory_->numel(bucket, ranks) / ranks;
  return {place, share * place, share * (place + 1)};
}

RecoverableUpdate::Lane RecoverableUpdate::cut_lane(int place, int lane, int ranks) const {
  Lane result;
  for (std::size_t b = 0; b < parts_.buckets.size(); ++b) {
    const Region part = part_of(b, place, ranks);
    const std::int64_t chunks = (part.end - part.begin + kChunkElements - 1) / kChunkElements;
    const std::int64_t last = chunks * (lane + 1) / memory_->lanes();
    for (std::int64_t k = chunks * lane / memory_->lanes(); k < last; ++k) {
      const std::int64_t begin = part.begin + k * kChunkElements;
      result.chunks.push_back({b, begin, std::min(begin + kChunkElements, part.end)});
    }
    result.until.push_back(result.chunks.size());
  }
  return result;
}

// Ranks of an earlier group finish their updates before they form the next one, unless all of them are lost.
void RecoverableUpdate::begin(Communicator& communicator) {
  const at::NoGradGuard no_grad;
  const auto ranks = static_cast<int>(memory_->header().journal.load());
  std::optional<UpdateNote> decided;
  if (ranks > 0 && ranks <= memory_->shape().most_ranks) {
    Crew before = crew_of(-1, ranks);
    decided = before.journal.decision(number_ + 1);
    for (int place = place_; decided && place < ranks; place += ranks_here_) finish_rank(before, place, *decided);
  }
  if (communicator.world_size() > 1) communicator.barrier();
  if (decided) end(*decided);
  crew_.journal.begin(communicator);
}

void RecoverableUpdate::run_lane(Crew& crew, int place, int lane, std::size_t bucket, SegmentUpdate update) {
  const Lane& chunks = crew.lanes[static_cast<std::size_t>(place)][static_cast<std::size_t>(lane)];
  crew.journal.run(place, lane, number_ + 1, chunks.until[bucket],
                   LaneChunks{*this, chunks, crew.journal.draft(place, lane), update});
}

void RecoverableUpdate::update_own(std::size_t bucket, const SegmentUpdate& update) {
  parallel_over(memory_->lanes(), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t lane = first; lane < last; ++lane)
      run_lane(crew_, place_, static_cast<int>(lane), bucket, update);
  });
}

// Every rank writes the same values. None can be at another update: the next one needs them all.
void RecoverableUpdate::end(const UpdateNote& note) {
  for (std::size_t b = 0; b < parts_.buckets.size(); ++b) {
    SegmentUpdate update;
    update.skip = skipped(b, note.contributed);
    parts_.state.count(b, update.skip);
    parts_.optimizer.update_segment(b, update);
  }
  parts_.state.write_steps(memory_->steps(number_ + 1));
  memory_->norm(number_ + 1) = note.norm;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ++number_;
  memory_->header().number.store(number_);
}

std::vector<bool> RecoverableUpdate::skipped(std::size_t bucket, const std::vector<std::uint8_t>& contributed) const {
  std::vector<bool> result;
  for (const std::size_t parameter : parts_.buckets[bucket].parameters) result.push_back(contributed[parameter] == 0);
  return result;
}

void RecoverableUpdate::finish(const Communicator& survivors) {
  const at::NoGradGuard no_grad;
  const UpdateNote note = decision().value();
  std::vector<int> alive;
  std::vector<int> lost;
  for (int place = 0; place < ranks_here_; ++place) {
    const auto& now = survivors.membership().peers;
    const bool is_alive = std::any_of(now.begin(), now.end(), [&](const Peer& peer) {
      return peer.global_rank == peers_[static_cast<std::size_t>(place)].global_rank;
    });
    (is_alive ? alive : lost).push_back(place);
  }
  finish_rank(crew_, place_, note);
  for (std::size_t i = 0; i < lost.size(); ++i) {
    if (alive[i % alive.size()] == place_) finish_rank(crew_, lost[i], note);
  }
}

void RecoverableUpdate::finish_rank(Crew& crew, int place, const UpdateNote& note) {
  for (std::size_t b = 0; b < parts_.buckets.size(); ++b) {
    if (!is_done(crew, place, b)) finish_bucket(crew, place, b, note);
  }
}

bool RecoverableUpdate::is_done(Crew& crew, int place, std::size_t bucket) const {
  const std::vector<Lane>& lanes = crew.lanes[static_cast<std::size_t>(place)];
  for (int lane = 0; lane < memory_->lanes(); ++lane) {
    const std::uint64_t until = lanes[static_cast<std::size_t>(lane)].until[bucket];
    if (!crew.journal.is_done(place, lane, number_ + 1, until)) return false;
  }
  return true;
}

// The sums are as the ranks left them before the update was decided.
void RecoverableUpdate::finish_bucket(Crew& crew, int place, std::size_t bucket, const UpdateNote& note) {
  const at::Tensor sums = memory_->sums(bucket);
  void* const source = sums.data_ptr();
  SegmentUpdate update;
  update.gradient.sources = &source;
  update.gradient.num_sources = 1;
  element_type_of(sums.scalar_type(), update.gradient.type);
  update.gradient.factor = note.factor;
  update.weights = update.weights_out = parts_.buckets[bucket].weights.data_ptr();
  update.skip = skipped(bucket, note.contributed);
  for (int lane = 0; lane < memory_->lanes(); ++lane) run_lane(crew, place, lane, bucket, update);
}

}  // namespace lockstep
