#include "lockstep/parallel/fused/gradients/pooled_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <chrono>
#include <utility>

#include "lockstep/base/seconds_since.h"
#include "lockstep/optim/memory_piece.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/reduce_marks.h"
#include "lockstep/parallel/sibling_group.h"

namespace lockstep {
namespace {

using Means = StandIns::Means;
using State = StandIns::State;

// The slot has another bucket's values between the gradients, and norms read whole shares.
void zero_gaps(const FusedBucket& bucket, const GradientBuckets& gradients) {
  std::int64_t end = 0;
  const auto zero_until = [&](std::int64_t begin) {
    if (begin > end) bucket.gradients.narrow(0, end, begin - end).zero_();
  };
  for (std::size_t k = 0; k < bucket.parameters.size(); ++k) {
    zero_until(bucket.offsets[k]);
    end = bucket.offsets[k] + gradients.place(bucket.parameters[k]).numel();
  }
  zero_until(bucket.gradients.numel());
}

void add_gradient(at::Tensor& gradient, const at::Tensor& more) {
  if (more.defined()) gradient = gradient.defined() ? gradient.add(more) : more;
}

}  // namespace

PooledGradients::PooledGradients(UpdateContext& context, GradientPool pool)
    : communicator_(*context.communicator),
      gradients_(context.gradients),
      buckets_(context.buckets),
      memory_(*context.memory),
      stand_ins_(*context.stand_ins),
      watch_(*context.watch),
      agreement_(context.agreement),
      kept_sums_slot_(agreement_.equal<std::uint8_t>()),
      weights_(*context.weights),
      gathers_weights_(context.plan.shards_weights),
      pool_(std::move(pool)),
      parameters_(parameters_of(buckets_)),
      late_(gradients_.num_parameters()) {}

// Until now the program may have dropped the gradients of earlier backwards by LibTorch's zero_grad.
void PooledGradients::backward_begins() {
  if (std::exchange(in_backward_, true)) return;
  if (watch_.is_waiting() && watch_.gradients_are_gone() && watch_.allows_drop()) {
    watch_.drop_gradients();
  }
  notice_drop();
  watch_.keep_gradient_faults();
  for (const std::size_t i : parameters_) {
    if (stand_ins_.means(i) == Means::Zeros && stand_ins_.state(i) != State::Zeroed) {
      stand_ins_.set_means(i, Means::Nothing);
    }
    stand_ins_.take_off(i);
  }
}

void PooledGradients::backward_left() {
  if (in_backward_) show_all();
  weights_.leave_backward();
}

void PooledGradients::show_all() {
  in_backward_ = false;
  for (const std::size_t i : parameters_) stand_ins_.show(i, stand_ins_.means(i));
}

void PooledGradients::arrived(std::size_t parameter) {
  ++arrivals_;
  watch_.gradient_arrived(parameter);
}

// Collectives within backward, such as those of SyncBatchNorm, and gathering weights keep a rank waiting for others. If
// this rank waited for them with a bucket that they hold back for an unused parameter, nobody would get on.
bool PooledGradients::can_start(std::size_t bucket) {
  const std::size_t index = position_of(buckets_, bucket);
  const bool meets_ranks = has_sibling_groups() || gathers_weights_;
  return !meets_ranks || !pool_.occupant(index) || memory_.is_reduced(*pool_.occupant(index));
}

std::shared_ptr<Work> PooledGradients::start(std::size_t bucket) {
  return send(position_of(buckets_, bucket), ReduceOp::Avg, 0);
}

std::shared_ptr<Work> PooledGradients::send(std::size_t index, ReduceOp op, int active) {
  if (const auto occupant = pool_.occupant(index)) {
    const auto start = std::chrono::steady_clock::now();
    memory_.end_reduction(*occupant);
    pool_.leave(*occupant);
    waited_s_ += seconds_since(start);
  }
  fill(buckets_[index]);
  pool_.occupy(index);
  return memory_.begin_reduction(index, {op, kept_sums_ != 0, op == ReduceOp::Sum ? active : 1});
}

void PooledGradients::fill(const FusedBucket& bucket) {
  const at::NoGradGuard no_grad;
  for (const std::size_t i : bucket.parameters) {
    stand_ins_.take_off(i);
    at::Tensor& grad = gradients_.parameter(i).mutable_grad();
    add_gradient(grad, std::exchange(late_[i], at::Tensor()));
    const bool has_gradient = gradients_.take(i);
    gradients_.take_off(i);
    if (has_gradient || stand_ins_.means(i) == Means::Zeros) stand_ins_.set_means(i, Means::Sum);
    if (has_gradient) watch_.gradient_sent(i);
  }
  zero_gaps(bucket, gradients_);
}

void PooledGradients::give_back(std::size_t parameter, const at::Tensor& late) {
  if (!late.defined()) return;
  add_gradient(late_[parameter], late);
  stand_ins_.set_means(parameter, Means::Sum);
}

void PooledGradients::backward_ended(bool) {
  end_reductions();
  show_all();
}

// Also counts what was sent since the last call as one reduction, of all buckets.
void PooledGradients::end_reductions() {
  bool any = false;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const auto occupant = pool_.occupant(index);
    if (!occupant) continue;
    any = true;
    memory_.end_reduction(*occupant);
    pool_.leave(*occupant);
  }
  if (!any) return;
  kept_sums_ = kept_sums_ == 255 ? 1 : static_cast<std::uint8_t>(kept_sums_ + 1);
  has_dropped_ = false;
}

double PooledGradients::take_waited_s() { return std::exchange(waited_s_, 0); }

// Whether this rank has a gradient that is in no sum.
bool PooledGradients::has_more(std::size_t parameter) const {
  return late_[parameter].defined() || stand_ins_.state(parameter) == State::Other;
}

void PooledGradients::collect(std::vector<std::uint8_t>& contributed) {
  for (const std::size_t i : parameters_) {
    const bool is_zero = stand_ins_.means(i) == Means::Zeros && stand_ins_.state(i) == State::Zeroed;
    contributed[i] = stand_ins_.means(i) == Means::Sum || is_zero || has_more(i) ? 1 : 0;
  }
}

bool PooledGradients::are_summed() const {
  if (kept_sums_ == 0) return false;
  for (const std::size_t i : parameters_) {
    if (has_more(i)) return false;
  }
  return true;
}

void PooledGradients::reduce(ReduceOp op, int active) {
  for (std::size_t index = 0; index < buckets_.size(); ++index) send(index, op, active);
  end_reductions();
  show_all();
}

std::size_t PooledGradients::end_update(const std::vector<std::uint8_t>& contributed) {
  std::size_t unused = 0;
  for (const std::size_t i : parameters_) {
    if (contributed[i] != 0) {
      stand_ins_.show(i, Means::Sum);
    } else {
      ++unused;
    }
  }
  return unused;
}

void PooledGradients::zero(bool) {
  kept_sums_ = 0;
  has_dropped_ = true;
  for (const std::size_t i : parameters_) {
    if (stand_ins_.means(i) != Means::Nothing) stand_ins_.show(i, Means::Zeros);
  }
}

std::optional<std::uint8_t> PooledGradients::kept_sums() const {
  if (stand_ins_.any_sum()) return kept_sums_;
  return has_dropped_ ? std::optional<std::uint8_t>(0) : std::nullopt;
}

void PooledGradients::look() {
  if (!agreement_.has_request()) return;
  if (const auto kept = kept_sums()) agreement_.say(kept_sums_slot_, *kept);
}

void PooledGradients::check() {
  if (!agreement_.differs(kept_sums_slot_)) return;
  throw AgreedError("gradients whose sums are with their owners were dropped on some ranks, but not on all",
                    communicator_.membership().where() + ", fused optimizer that shares out gradients",
                    "call zero_grad() on every rank, or on none, between two backwards");
}

void PooledGradients::take_up() {
  if (agreement_.active_ranks() != 0) kept_sums_ = agreement_.value(kept_sums_slot_).value_or(0);
}

void PooledGradients::notice_drop() {
  if (stand_ins_.any_sum() && watch_.gradients_are_gone()) drop();
}

void PooledGradients::drop() {
  kept_sums_ = 0;
  has_dropped_ = true;
  for (const std::size_t i : parameters_) {
    late_[i].reset();
    if (stand_ins_.means(i) == Means::Nothing) continue;
    const State state = stand_ins_.state(i);
    const bool is_shown = state != State::Gone && state != State::Other;
    if (is_shown) {
      stand_ins_.show(i, Means::Zeros);
    } else {
      stand_ins_.set_means(i, Means::Nothing);
    }
  }
}

std::uint64_t PooledGradients::writes() const {
  std::uint64_t count = arrivals_;
  for (const std::size_t i : parameters_) {
    const at::Tensor& grad = gradients_.parameter(i).grad();
    // Another tensor counts as new.
    if (grad.defined()) count += stand_ins_.state(i) == State::Other ? std::uint64_t{1} << 32 : grad._version();
  }
  return count;
}

std::vector<at::Tensor> PooledGradients::gather() {
  notice_drop();
  const std::size_t count = gradients_.num_parameters();
  std::vector<std::uint8_t> summed(count + 1, 0);  // by parameter; then how many reductions there are
  for (const std::size_t i : parameters_) summed[i] = stand_ins_.means(i) == Means::Sum ? 1 : 0;
  summed[count] = kept_sums().value_or(0);
  reduce_marks(communicator_, summed);
  std::vector<at::Tensor> averages(count);
  if (summed[count] == 0) return averages;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const FusedBucket& bucket = buckets_[index];
    const at::Tensor own = memory_.sum(index);
    at::Tensor whole = at::empty({bucket.gradients.numel()}, own.options());
    communicator_.all_gather(whole, own);
    for (std::size_t k = 0; k < bucket.parameters.size(); ++k) {
      const std::size_t i = bucket.parameters[k];
      if (summed[i] != 0) averages[i] = memory_piece(whole, bucket.offsets[k], gradients_.parameter(i).sizes());
    }
  }
  return averages;
}

// What is not sent stays with the parameters.
void PooledGradients::leave() {
  const at::NoGradGuard no_grad;
  in_backward_ = false;
  for (const std::size_t i : parameters_) {
    const at::Tensor& parameter = gradients_.parameter(i);
    const bool is_zero = stand_ins_.means(i) == Means::Zeros && stand_ins_.state(i) == State::Zeroed;
    stand_ins_.take_off(i);
    stand_ins_.set_means(i, Means::Nothing);
    at::Tensor& grad = parameter.mutable_grad();
    add_gradient(grad, std::exchange(late_[i], at::Tensor()));
    if (is_zero && !grad.defined()) grad = at::zeros_like(parameter);  // an update by zeros is not none
  }
}

}  // namespace lockstep
