#include "lockstep/parallel/fused/weights/unit_gathering.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

constexpr const char* kCall = "a forward or backward";

bool is_in_backward() { return torch::autograd::get_current_graph_task_exec_info() != nullptr; }

}  // namespace

UnitGathering::UnitGathering(const Needs& needs)
    : with_(needs),
      units_((needs.has_copies ? 2 : 1) * needs.units.units.size()),
      calls_(needs.units, units_.size(), needs.communicator, needs.group) {}

// A read that gathers needs all ranks; one rank that prints a weight would wait for the others without end.
bool UnitGathering::may_gather() const {
  return forwards_ > 0 || is_in_backward() || (with_.follows_backward && at::GradMode::is_enabled());
}

std::size_t UnitGathering::parameter_at(std::size_t bucket, std::int64_t element) const {
  const std::vector<std::int64_t>& offsets = with_.buckets[bucket].offsets;
  const auto after = std::upper_bound(offsets.begin(), offsets.end(), element);
  return with_.buckets[bucket].parameters[static_cast<std::size_t>(after - offsets.begin()) - 1];
}

void UnitGathering::begin_unit(std::size_t number, std::size_t parameter) {
  if (units_[number].presence != Presence::Here && !may_gather()) {
    throw Error(
        fmt::format("weight \"{}\" was read outside of forward and backward, but this rank has only a share of it",
                    with_.gradients.name(parameter)),
        with_.communicator.membership().where() + ", fused optimizer of stage 3",
        "call unshard() of what fuse or fully_shard returned, or of the Trainer, on every rank, read or write weights, "
        "and call reshard(); and run forwards through the DistributedDataParallel");
  }
  ++units_[number].readers;
  try {
    enter(number);
  } catch (...) {
    --units_[number].readers;
    throw;
  }
}

bool UnitGathering::may_free(std::size_t number) const {
  const Unit& unit = units_[number];
  if (is_outside(number) || keeps_all_ || unit.presence == Presence::Freed || unit.readers > 0) return false;
  if (with_.reshards) return true;
  return is_in_backward() && unit.in_backward == backwards_;
}

// The same units are here afterwards on all ranks, because they enter the same ones.
void UnitGathering::enter(std::size_t number) {
  Unit& unit = units_[number];
  if (is_in_backward()) unit.in_backward = backwards_;
  if (unit.presence == Presence::Here && (keeps_all_ || number == current_ || is_outside(number))) return;
  std::optional<std::size_t> next;
  if (!is_outside(number)) {
    next = order_.enter(number);
    if (next && (*next == number || is_outside(*next))) next.reset();
    const std::size_t other = next.value_or(current_);
    for (std::size_t i = 1; i < units_.size(); ++i) {
      if (i != number && i != other && may_free(i)) free(i);
    }
    current_ = number;
  }
  start(number);
  if (next) start(*next);
  finish(number);
}

void UnitGathering::start(std::size_t number) {
  if (units_[number].presence != Presence::Freed) return;
  const at::AutoDispatchBelowADInplaceOrView untracked;
  units_[number].presence = Presence::Coming;
  // An engine that has found a difference already refuses the second of these calls.
  with_positions_of_ranks(with_.communicator, with_.position(), kCall, [&] {
    calls_.send(number, with_.shards.moved_parameters());
    if (has_part(number)) return parts_->start(number, with_.group);
    for (const std::size_t bucket : buckets_of(number)) with_.shards.gather(bucket, with_.group);
  });
  with_.bytes.note_peak();
}

void UnitGathering::finish(std::size_t number) {
  if (units_[number].presence == Presence::Here) return;
  with_positions_of_ranks(with_.communicator, with_.position(), kCall, [&] {
    calls_.check(number);
    if (has_part(number)) return parts_->finish(number);
    for (const std::size_t bucket : buckets_of(number)) with_.shards.wait(bucket);
    for_each_parameter(number, [&](std::size_t bucket, std::size_t place) { with_.shards.show(bucket, place); });
  });
  units_[number].presence = Presence::Here;
}

void UnitGathering::free(std::size_t number) {
  if (units_[number].presence == Presence::Freed) return;
  finish(number);
  units_[number].presence = Presence::Freed;
  if (parts_ != nullptr) parts_->close_rounded(number);
  if (has_part(number)) return parts_->close(number);
  for_each_parameter(number, [&](std::size_t bucket, std::size_t place) { with_.shards.hide(bucket, place); });
  for (const std::size_t bucket : buckets_of(number)) with_.shards.leave(bucket);
}

// Those of the unit alone: another that shares a bucket shows its own when it is read.
template <typename Do>
void UnitGathering::for_each_parameter(std::size_t number, const Do& act) const {
  for (const std::size_t index : buckets_of(number)) {
    const std::vector<std::size_t>& parameters = with_.buckets[index].parameters;
    for (std::size_t place = 0; place < parameters.size(); ++place) {
      if (with_.units.of[parameters[place]] == number % with_.units.units.size()) act(index, place);
    }
  }
}

void UnitGathering::free_all() {
  keeps_all_ = false;
  order_.end_step();
  current_ = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) free(i);
}

// An Error of the group is reported by the next call that uses it.
void UnitGathering::free_quietly() noexcept {
  try {
    for (std::size_t i = 0; i < units_.size(); ++i) free(i);
    current_ = 0;
  } catch (const std::exception& error) {
    log_debug("weights stay in memory: {}", error.what());
  }
}

void UnitGathering::leave_forward() noexcept {
  if (--forwards_ == 0 && !at::GradMode::is_enabled() && !keeps_all_ && !is_in_backward()) free_quietly();
}

void UnitGathering::leave_backward() noexcept {
  ++backwards_;
  if (!keeps_all_) free_quietly();
}

bool UnitGathering::gather_all() {
  if (keeps_all_) return false;
  const std::size_t count = with_.units.units.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (has_part(i)) free(i);
    start(whole_of(i));
  }
  for (std::size_t i = 0; i < count; ++i) finish(whole_of(i));
  keeps_all_ = true;
  return true;
}

void UnitGathering::visit_all(const std::function<void(const WeightUnit&)>& visit) {
  for (std::size_t i = 0; i < with_.units.units.size(); ++i) {
    start(whole_of(i));
    finish(whole_of(i));
    visit(with_.units.units[i]);
    free(whole_of(i));
  }
}

}  // namespace lockstep
