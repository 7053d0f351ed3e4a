#include "lockstep/parallel/fused/recovery/recoverable_pass.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

/// The update of a step in which a rank is lost.
class UpdateOfStep final : public InterruptedUpdate {
 public:
  UpdateOfStep(RecoverableUpdate& update, const Communicator& survivors) : update_(update), survivors_(survivors) {}
  std::uint64_t number() const override { return update_.next_number(); }
  std::optional<UpdateNote> note() override { return update_.decision(); }
  void take(const UpdateNote& note) override { update_.decide(note); }
  void finish() override { update_.finish(survivors_); }

 private:
  RecoverableUpdate& update_;
  const Communicator& survivors_;
};

}  // namespace

RecoverablePass::RecoverablePass(UpdateContext& context, UpdateRescue& rescue, std::int64_t most_ranks)
    : context_(context), rescue_(rescue), most_ranks_(most_ranks) {}

void RecoverablePass::open_memory() {
  Communicator& ranks = *context_.communicator;
  const bool is_there = rescue_.adopts();
  hosts_ = MemoryHosts::of(ranks, rescue_.memory().get());
  host_copy_ = std::make_unique<HostCopy>(hosts_, is_there ? rescue_.adopted_hosts() : std::vector<bool>(), ranks);
  const auto shape = LastingMemory::shape_of(context_.buckets, context_.gradients, most_ranks_, ranks.world_size());
  const auto lanes = RecoverableUpdate::lanes_for(context_.buckets, shape.parameters, ranks);
  const auto earlier = rescue_.state() != nullptr ? rescue_.state()->memory() : nullptr;
  lasting_ =
      LastingMemory::open(rescue_.memory(), shape, lanes, is_there && host_copy_->is_here(), earlier, hosts_, ranks);
  copy_counts();
  state_ = std::make_shared<SharedState>(context_.optimizer, context_.buckets, context_.gradients, lasting_,
                                         hosts_.count(), is_there);
  rescue_.hold(state_);
  lasting_->reserve_gradients(hosts_, ranks);
  for (std::size_t b = 0; b < context_.buckets.size(); ++b) {
    FusedBucket& bucket = context_.buckets[b];
    context_.gradients.lend(bucket.index, lasting_->gradients(hosts_.place(), b), /*is_cleared=*/false);
    bucket.gradients = context_.gradients[bucket.index].memory;
    for (int rank = 0; rank < ranks.world_size() && hosts_.count() == 1; ++rank) {
      bucket.gradients_of.push_back(lasting_->gradients(rank, b).data_ptr());
    }
    const std::int64_t numel = lasting_->numel(b, ranks.world_size());
    bucket.weights = lasting_->weights(b).narrow(0, 0, numel);
    bucket.sums = lasting_->sums(b).narrow(0, 0, numel);
    fill(lasting_->weights(b));
    if (!is_there || host_copy_->any_lacks()) lasting_->reserve_part(lasting_->sums(b), hosts_, ranks);
  }
}

// What the state of hosts that have joined needs to know first.
void RecoverablePass::copy_counts() {
  if (!host_copy_->any_lacks()) return;
  MemoryHeader& header = lasting_->header();
  const auto number = host_copy_->is_here() ? static_cast<std::int64_t>(header.number.load()) : 0;
  const at::Tensor newest = at::tensor({number}, at::TensorOptions().dtype(at::kLong));
  context_.communicator->all_reduce(newest, ReduceOp::Max);
  const auto counted = static_cast<std::uint64_t>(*newest.data_ptr<std::int64_t>());
  if (!host_copy_->is_here() && hosts_.place() == 0) header.number.store(counted);
  host_copy_->copy(lasting_->counts(counted));
}

// Weights, or state.
void RecoverablePass::fill(const at::Tensor& memory) {
  if (rescue_.adopts() && !host_copy_->any_lacks()) return;
  lasting_->reserve_part(memory, hosts_, *context_.communicator);
  if (host_copy_->any_lacks()) host_copy_->copy(memory);
}

void RecoverablePass::place_state(std::vector<FusedSegment>& segments) {
  for (std::size_t b = 0; b < segments.size(); ++b) {
    state_->take(segments[b], b, context_.communicator->world_size(),
                 [this](const at::Tensor& memory) { fill(memory); });
  }
}

// Hosts differ only if something else than an update has written there.
void RecoverablePass::check_hosts() {
  if (hosts_.count() == 1) return;
  const auto number = static_cast<std::int64_t>(lasting_->header().number.load());
  at::Tensor extremes = at::tensor({number, -number}, at::TensorOptions().dtype(at::kLong));
  context_.communicator->all_reduce(extremes, ReduceOp::Max);
  const auto* const values = extremes.data_ptr<std::int64_t>();
  if (values[0] == -values[1]) return;
  throw_caused(
      Error(fmt::format("one host has weights after {} updates, but another one after {}", -values[1], values[0]),
            context_.communicator->membership().where() + ", memory that outlives the ranks",
            "this is a fault of the library; resume from the last checkpoint"),
      {FailureCause::Kind::Disagreement, -1});
}

void RecoverablePass::begin() {
  MemoryHeader& header = lasting_->header();
  if (!rescue_.adopts()) state_->write_steps(lasting_->steps(0));
  check_hosts();
  recovery_ =
      std::make_unique<RecoverableUpdate>(RecoverableUpdate::Parts{context_.optimizer, context_.buckets, *state_},
                                          lasting_, hosts_, *context_.communicator);
  recovery_->begin(*context_.communicator);
  if (hosts_.count() > 1)
    sum_exchange_ = std::make_unique<SumExchange>(hosts_, context_.plan, context_.buckets, *context_.communicator);
  state_->is_complete();
  context_.watch->start_over();  // it may have finished an update
  // The journal has begun on all ranks, so all have written their part. The first rank of the host takes part in each
  // update.
  if (hosts_.place() != 0) return;
  if (hosts_.count() > 1) header.can_begin.store(0);  // what a program kept there will be out of date
  header.is_whole.store(1);
}

// If the group has ended, the next one continues from what is there.
void RecoverablePass::abandon(const std::exception_ptr& failure, bool group_has_ended) {
  if (stays_unmade(group_has_ended)) std::rethrow_exception(failure);
  const bool has_none =
      rescue_.state() == nullptr || rescue_.may_be_unfinished() || !host_copy_ || !host_copy_->is_here();
  if (rescue_.adopts() && has_none) std::rethrow_exception(failure);  // no state to leave with
  rescue_.take_whole();
  if (group_has_ended) std::rethrow_exception(failure);
  rescue_.forget_memory();
}

void RecoverablePass::leave() {
  sum_exchange_.reset();
  recovery_.reset();
}

bool RecoverablePass::may_publish_copies() const {
  if (context_.plan.sources == UpdatePlan::Sources::InPlace) return true;
  if (context_.communicator->rank() == 0) {
    log_info(
        "fuse: no bf16 copies are published, because the ranks survive others and send each other gradients (engine "
        "{}): layers cast the weights",
        context_.communicator->engine());
  }
  return false;
}

// Every host needs the sums of all gradients: it makes the whole update.
void RecoverablePass::prepare() {
  for (std::size_t b = 0; b < context_.buckets.size(); ++b) {
    context_.memory->gradients(b);
    if (sum_exchange_) sum_exchange_->start(b);
  }
  if (sum_exchange_) sum_exchange_->finish();
}

// Whoever finishes the update for a lost rank needs all sums.
void RecoverablePass::decide(const UpdateNote& note, bool has_met) {
  if (!has_met && context_.communicator->world_size() > 1) context_.communicator->barrier();
  recovery_->decide(note);
}

StepResult RecoverablePass::after(const std::exception_ptr& failure) {
  std::exception_ptr last = failure;
  for (;;) {
    const std::shared_ptr<Communicator> survivors = rescue_.ranks().regroup(last);
    try {
      UpdateOfStep update(*recovery_, *survivors);
      if (!rescue_.ranks().meet(&update)) break;
      const UpdateNote note = recovery_->decision().value();
      recovery_->end(note);
      StepResult result;
      result.norm = note.norm;
      return result;
    } catch (...) {
      last = std::current_exception();
    }
  }
  std::rethrow_exception(last);
}

}  // namespace lockstep
