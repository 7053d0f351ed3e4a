#include "lockstep/parallel/fused/fused_watch.h"

#include <algorithm>
#include <utility>

#include "lockstep/parallel/fused/weights/read_watch.h"

namespace lockstep {

FusedWatch::FusedWatch(std::vector<at::Tensor> parameters, const StandIns& stand_ins)
    : parameters_(std::move(parameters)),
      stand_ins_(stand_ins),
      weights_(parameters_.size()),
      gradients_(parameters_.size()),
      writes_(parameters_.size(), WeightWrite::None),
      kept_faults_(parameters_.size(), FusedFault::None),
      has_own_memory_(parameters_.size(), false) {
  take_weights();
}

void FusedWatch::gradient_arrived(std::size_t index) {
  const at::Tensor& gradient = parameters_[index].grad();
  if (!gradient.defined()) return;
  if (!is_waiting_) note_writes();  // writes are permitted until this moment, also after an earlier forward
  is_waiting_ = true;
  gradients_[index].take(gradient, turn_);
}

bool FusedWatch::gradients_are_gone() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_gone(i)) return false;
  }
  return true;
}

bool FusedWatch::is_gone(std::size_t index) const {
  const bool is_sent = stand_ins_.means(index) == StandIns::Means::Sum;
  if (!is_sent && !gradients_[index].is_set()) return true;
  const at::Tensor& gradient = parameters_[index].grad();
  if (!gradient.defined()) return true;
  if (is_sent && stand_ins_.state(index) == StandIns::State::Zeroed) return true;
  return gradients_[index].is_set() && gradients_[index].was_zeroed(gradient);
}

void FusedWatch::keep_gradient_faults() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].defined() && kept_faults_[i] == FusedFault::None) kept_faults_[i] = gradient_fault(i);
  }
}

bool FusedWatch::allows_drop() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const FusedFault fault = parameters_[i].defined() ? weight_fault(i) : FusedFault::None;
    if (fault == FusedFault::WeightWritten || fault == FusedFault::WeightChanged) {
      return std::exchange(has_updated_, false);
    }
  }
  return true;
}

void FusedWatch::forget_gradients() {
  is_waiting_ = false;
  turn_ += 7919;  // a prime: selects other elements each time
  for (GradientSample& sample : gradients_) sample.reset();
  std::fill(kept_faults_.begin(), kept_faults_.end(), FusedFault::None);
}

void FusedWatch::drop_gradients() {
  forget_gradients();
  note_writes();
}

void FusedWatch::start_over() {
  forget_gradients();
  take_weights();
  has_updated_ = true;
}

void FusedWatch::note_writes() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (!parameter.defined() || is_watched(parameter)) continue;
    WeightSample& sample = weights_[i];
    if (sample.is_in_place(parameter)) {
      if (sample.has_new_version(parameter)) {
        writes_[i] = WeightWrite::Known;
      } else if (sample.has_new_elements(parameter)) {
        writes_[i] = std::max(writes_[i], WeightWrite::Seen);
      } else {
        continue;
      }
    } else {
      writes_[i] = WeightWrite::Known;  // to other memory, with whatever is there
    }
    sample.take(parameter);
  }
}

bool FusedWatch::any_writes() const {
  return std::any_of(writes_.begin(), writes_.end(), [](WeightWrite write) { return write != WeightWrite::None; });
}

bool FusedWatch::is_as_updated(std::size_t index) const {
  return writes_[index] == WeightWrite::None && weight_fault(index) == FusedFault::None;
}

void FusedWatch::take_weights() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].defined()) continue;
    if (is_watched(parameters_[i])) {
      weights_[i].reset();
    } else {
      weights_[i].take(parameters_[i]);
    }
  }
  std::fill(writes_.begin(), writes_.end(), WeightWrite::None);
  has_own_memory_.assign(parameters_.size(), false);
}

void FusedWatch::take_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (gradients_[i].is_set()) gradient_arrived(i);
  }
}

FusedFault FusedWatch::weight_fault(std::size_t index) const {
  const at::Tensor& parameter = parameters_[index];
  const WeightSample& sample = weights_[index];
  if (is_watched(parameter)) return FusedFault::None;  // one that is written gets other memory
  if (!sample.is_in_place(parameter)) {
    return has_own_memory_[index] ? FusedFault::WeightWritten : FusedFault::WeightMoved;
  }
  if (sample.has_new_version(parameter)) return FusedFault::WeightWritten;
  return sample.has_new_elements(parameter) ? FusedFault::WeightChanged : FusedFault::None;
}

FusedFault FusedWatch::gradient_fault(std::size_t index) const {
  if (kept_faults_[index] != FusedFault::None) return kept_faults_[index];
  const StandIns::Means means = stand_ins_.means(index);
  if (means == StandIns::Means::Nothing) return sample_fault(index);
  switch (stand_ins_.state(index)) {
    case StandIns::State::Intact:
      return FusedFault::None;
    case StandIns::State::Gone:
    case StandIns::State::Zeroed:
      return means == StandIns::Means::Sum ? FusedFault::GradientDropped : FusedFault::None;
    case StandIns::State::Written:
      return FusedFault::GradientWritten;
    case StandIns::State::Other:
      break;
  }
  // A later backward that was not synchronised may have put a gradient there, which counts in addition.
  const bool is_known = gradients_[index].is_set() && gradients_[index].is_in_place(parameters_[index].grad());
  if (means == StandIns::Means::Sum && !is_known) return FusedFault::GradientWritten;
  return sample_fault(index);
}

FusedFault FusedWatch::sample_fault(std::size_t index) const {
  const GradientSample& sample = gradients_[index];
  const at::Tensor& gradient = parameters_[index].grad();
  if (!sample.is_set() || !gradient.defined() || gradient.layout() != at::kStrided) return FusedFault::None;
  if (!sample.is_in_place(gradient)) return FusedFault::None;  // the program put another gradient there
  // A write that autograd has counted is the program's own: it changes this rank's contribution to the average. That is
  // correct for sums and products, but the average of clamped gradients is not the clamped average.
  const bool is_wrong =
      sample.has_new_version(gradient) ? sample.was_clamped(gradient) : sample.has_new_elements(gradient);
  return is_wrong ? FusedFault::GradientChanged : FusedFault::None;
}

FusedFault FusedWatch::fault(std::size_t index) const {
  if (!parameters_[index].defined()) return FusedFault::None;
  const FusedFault weight = is_waiting_ ? weight_fault(index) : FusedFault::None;
  return weight != FusedFault::None ? weight : gradient_fault(index);
}

}  // namespace lockstep
