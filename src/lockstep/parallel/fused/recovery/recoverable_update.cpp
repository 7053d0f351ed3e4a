#include "lockstep/parallel/fused/recovery/recoverable_update.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "lockstep/optim/kernels/parallel_over.h"
#include "lockstep/optim/update/gradient_memory.h"
#include "lockstep/optim/update/update_run.h"

namespace lockstep {
namespace {

// Lanes begin at multiples of this, so that none has a few elements more than another.
constexpr std::int64_t kLaneStep = 4096;

std::size_t undo_bytes(const std::vector<FusedBucket>& buckets) {
  std::size_t largest = 0;
  for (const FusedBucket& bucket : buckets) largest = std::max<std::size_t>(largest, bucket.gradients.element_size());
  return UpdateJournal::undo_bytes(UndoLog::slots_bytes(largest));
}

// As many as threads of the rank that has most of them.
int agreed_lanes(Communicator& communicator) {
  const at::Tensor threads = at::full({1}, at::get_num_threads(), at::TensorOptions().dtype(at::kInt));
  if (communicator.world_size() > 1) communicator.all_reduce(threads, ReduceOp::Max);
  return *threads.data_ptr<int>();
}

}  // namespace

LastingMemory::Lanes RecoverableUpdate::lanes_for(const std::vector<FusedBucket>& buckets, std::size_t parameters,
                                                  Communicator& communicator) {
  return {agreed_lanes(communicator), UpdateJournal::note_bytes(parameters), undo_bytes(buckets)};
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
  std::uint64_t first = 0;
  for (std::size_t b = 0; b < parts_.buckets.size(); ++b) {
    const Region part = part_of(b, place, ranks);
    const std::int64_t steps = (part.end - part.begin + kLaneStep - 1) / kLaneStep;
    const auto cut = [&](std::int64_t before) {
      return std::min(part.begin + steps * before / memory_->lanes() * kLaneStep, part.end);
    };
    result.push_back({cut(lane), cut(lane + 1), first});
    first = result.back().until();
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

// The log of a bucket's weights and state. Pointers refer to the bucket's element 0.
UndoLog RecoverableUpdate::undo_of(Crew& crew, int place, int lane, std::size_t bucket) const {
  const Piece& piece = crew.lanes[static_cast<std::size_t>(place)][static_cast<std::size_t>(lane)][bucket];
  UndoLog log = crew.journal.undo(place, lane, number_ + 1);
  const at::Tensor& weights = parts_.buckets[bucket].weights;
  log.element_bytes = weights.element_size();
  log.arrays[log.num_arrays++] = static_cast<std::byte*>(weights.data_ptr());
  for (const at::Tensor& buffer : parts_.state.buffers(bucket)) {
    log.arrays[log.num_arrays++] = static_cast<std::byte*>(buffer.data_ptr());
  }
  log.position = piece.first - static_cast<std::uint64_t>(piece.begin);
  return log;
}

// Takes back the block that was under way, and then updates the rest of a bucket's piece.
void RecoverableUpdate::run_lane(Crew& crew, int place, int lane, std::size_t bucket, SegmentUpdate update) {
  const Lane& pieces = crew.lanes[static_cast<std::size_t>(place)][static_cast<std::size_t>(lane)];
  UpdateLane<UpdateJournal> progress = crew.journal.lane(place, lane);
  const std::uint64_t done = progress.resume(number_ + 1, [&](const UndoMark& mark) {
    std::size_t torn = 0;
    while (pieces[torn].until() <= mark.position) ++torn;
    const UndoLog log = undo_of(crew, place, lane, torn);
    log.restore(mark.position - log.position, mark.elements, mark.slot);
  });
  const Piece& piece = pieces[bucket];
  if (done >= piece.until()) return;
  const auto begin = piece.begin + static_cast<std::int64_t>(done - piece.first);
  update.range = {begin, piece.end, undo_of(crew, place, lane, bucket)};
  parts_.optimizer.update_segment(bucket, update);
  progress.finish(number_ + 1, piece.until());
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
    const std::uint64_t until = lanes[static_cast<std::size_t>(lane)][bucket].until();
    if (!crew.journal.lane(place, lane).is_done(number_ + 1, until)) return false;
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
