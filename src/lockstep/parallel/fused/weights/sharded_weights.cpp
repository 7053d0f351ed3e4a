#include "lockstep/parallel/fused/weights/sharded_weights.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/host_memory.h"

namespace lockstep {
namespace {

constexpr const char* kCall = "a forward or backward";

void warn_of_one_unit() {
  log_warning(
      "fuse: no submodule is a unit, so all weights are gathered together, and each rank holds all of them in forward "
      "and backward. Name the layers by units, unit_types or unit_min_params; without these, numbered submodules are "
      "units (\"layers.0\"), and the module has none");
}

bool is_in_backward() { return torch::autograd::get_current_graph_task_exec_info() != nullptr; }

}  // namespace

ShardedWeights::ShardedWeights(const Parts& parts, const std::vector<std::string>& units, bool reshard_after_forward)
    : gradients_(parts.gradients),
      buckets_(parts.buckets),
      communicator_(parts.communicator),
      gathering_(parts.communicator->split(0, parts.communicator->rank())),
      follows_backward_(parts.follows_backward),
      position_(parts.position),
      reshards_(reshard_after_forward),
      plan_(units, parts.buckets, parts.gradients),
      states_(parts.buckets.size()),
      units_((parts.has_copies ? 2 : 1) * plan_.units.size()) {
  const at::NoGradGuard no_grad;
  // All of it before the first parameter loses its own.
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    states_[index].memory = make_memory(index, parts.gathers_for_host);
  }
  if (parts.has_copies) {
    copies_ = std::make_unique<ShardedCopies>(
        ShardedCopies::Parts{*this, gradients_, buckets_, plan_, parts.plan, *communicator_,
                             parts.gathers_for_host ? dynamic_cast<HostMemoryEngine*>(gathering_.get()) : nullptr});
  }
  for (std::size_t index = 0; index < buckets_.size(); ++index) share_out(index);
  peak_bytes_ = bytes_;
  if (units.empty() && communicator_->rank() == 0) warn_of_one_unit();
}

std::unique_ptr<WatchedMemory> ShardedWeights::make_memory(std::size_t index, bool for_host) {
  const at::ScalarType dtype = gradients_.parameter(buckets_[index].parameters.front()).scalar_type();
  const std::int64_t numel = buckets_[index].gradients.numel();
  if (!for_host) return std::make_unique<WatchedMemory>(*this, index, numel, dtype);
  auto& engine = dynamic_cast<HostMemoryEngine&>(*gathering_);
  return std::make_unique<WatchedMemory>(*this, index, engine.allocate_transient_for_host(numel, dtype, {}));
}

void ShardedWeights::share_out(std::size_t index) {
  FusedBucket& bucket = buckets_[index];
  Bucket& state = states_[index];
  bucket.weights = state.memory->whole();
  state.shard = at::zeros({bucket.own.end - bucket.own.begin}, bucket.weights.options());
  bytes_ += static_cast<std::int64_t>(state.shard.nbytes());
  state.samples.resize(bucket.parameters.size());
  for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
    const at::Tensor& parameter = gradients_.parameter(bucket.parameters[place]);
    state.views.push_back(state.memory->view(bucket.offsets[place], parameter));
    state.absent.push_back(watched_without_memory(parameter));
    adopt(index, place);
    const std::size_t i = bucket.parameters[place];
    if (copies_) {
      watched_.add(parameter, *copies_, copies_->number_without_memory(i));
    } else {
      watched_.add(parameter, *this, i);
    }
  }
}

ShardedWeights::~ShardedWeights() {
  const at::NoGradGuard no_grad;
  try {
    for (std::size_t index = 0; keeps_all_ && index < buckets_.size(); ++index) own_bucket(index);
  } catch (const std::exception& error) {
    log_warning("the weights stay in shards: {}", error.what());
  }
  free_quietly();
}

void* ShardedWeights::owned_weights(std::size_t bucket) const {
  const at::Tensor& shard = states_[bucket].shard;
  const auto offset = static_cast<std::uintptr_t>(buckets_[bucket].own.begin) * shard.element_size();
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(shard.data_ptr()) - offset);
}

// A read that gathers needs all ranks; one rank that prints a weight would wait for the others without end.
bool ShardedWeights::may_gather() const {
  return forwards_ > 0 || is_in_backward() || (follows_backward_ && at::GradMode::is_enabled());
}

std::size_t ShardedWeights::parameter_at(std::size_t bucket, std::int64_t element) const {
  const std::vector<std::int64_t>& offsets = buckets_[bucket].offsets;
  const auto after = std::upper_bound(offsets.begin(), offsets.end(), element);
  return buckets_[bucket].parameters[static_cast<std::size_t>(after - offsets.begin()) - 1];
}

void ShardedWeights::begin_unit(std::size_t unit, std::size_t parameter) {
  if (units_[unit].presence != Presence::Here && !may_gather()) {
    throw Error(
        fmt::format("weight \"{}\" was read outside of forward and backward, and this rank has a share of it "
                    "alone",
                    gradients_.name(parameter)),
        communicator_->membership().where() + ", fused optimizer of stage 3",
        "call unshard() of the DistributedDataParallel, or of the Trainer, on every rank, read or write weights, "
        "and call reshard(); and run forwards through the DistributedDataParallel");
  }
  ++units_[unit].readers;
  try {
    enter(unit);
  } catch (...) {
    --units_[unit].readers;
    throw;
  }
}

bool ShardedWeights::may_free(std::size_t unit) const {
  const Unit& state = units_[unit];
  if (is_outside(unit) || keeps_all_ || state.presence == Presence::Freed || state.readers > 0) return false;
  if (reshards_) return true;
  return is_in_backward() && state.in_backward == backwards_;
}

// The same units are here afterwards on all ranks, because they enter the same ones.
void ShardedWeights::enter(std::size_t unit) {
  Unit& state = units_[unit];
  if (is_in_backward()) state.in_backward = backwards_;
  if (state.presence == Presence::Here && (keeps_all_ || unit == current_ || is_outside(unit))) return;
  std::optional<std::size_t> next;
  if (!is_outside(unit)) {
    next = order_.enter(unit);
    if (next && (*next == unit || is_outside(*next))) next.reset();
    const std::size_t other = next.value_or(current_);
    for (std::size_t i = 1; i < units_.size(); ++i) {
      if (i != unit && i != other && may_free(i)) free(i);
    }
    current_ = unit;
  }
  start(unit);
  if (next) start(*next);
  finish(unit);
}

void ShardedWeights::start(std::size_t number) {
  Unit& unit = units_[number];
  if (unit.presence != Presence::Freed) return;
  const at::AutoDispatchBelowADInplaceOrView untracked;
  unit.presence = Presence::Coming;
  unit.call = at::empty({2}, at::TensorOptions().dtype(at::kLong));
  unit.call.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(number);
  unit.call.data_ptr<std::int64_t>()[1] = moved_parameters();
  unit.calls = at::empty({2 * gathering_->world_size()}, unit.call.options());
  // An engine that has found the difference already refuses the second of these calls.
  with_positions_of_ranks(*communicator_, position_(), kCall, [&] {
    unit.check = gathering_->all_gather_async(unit.calls, unit.call);
    if (has_part(number)) return copies_->start(number, *gathering_);
    for (const std::size_t index : buckets_of(number)) {
      Bucket& bucket = states_[index];
      if (bucket.users++ > 0) continue;
      bucket.memory->open();
      bytes_ += static_cast<std::int64_t>(bucket.memory->whole().nbytes());
      bucket.work = gathering_->all_gather_async(bucket.memory->incoming(), bucket.shard);
    }
  });
  note_peak();
}

void ShardedWeights::note_peak() { peak_bytes_ = std::max(peak_bytes_, bytes_ + (copies_ ? copies_->bytes() : 0)); }

void ShardedWeights::finish(std::size_t number) {
  Unit& unit = units_[number];
  if (unit.presence == Presence::Here) return;
  with_positions_of_ranks(*communicator_, position_(), kCall, [&] {
    check_calls(unit, number);
    if (has_part(number)) {
      copies_->finish(number);
    } else {
      for (const std::size_t index : buckets_of(number)) {
        if (states_[index].work) std::exchange(states_[index].work, nullptr)->wait();
      }
      show_unit(number);
    }
  });
  unit.presence = Presence::Here;
}

void ShardedWeights::free(std::size_t number) {
  Unit& unit = units_[number];
  if (unit.presence == Presence::Freed) return;
  finish(number);
  unit.presence = Presence::Freed;
  if (copies_) copies_->close_rounded(number);
  if (has_part(number)) return copies_->close(number);
  hide_unit(number);
  for (const std::size_t index : buckets_of(number)) {
    Bucket& bucket = states_[index];
    if (--bucket.users > 0) continue;
    bucket.memory->close();
    bytes_ -= static_cast<std::int64_t>(bucket.memory->whole().nbytes());
  }
}

void ShardedWeights::free_all() {
  keeps_all_ = false;
  order_.end_step();
  current_ = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) free(i);
}

// An Error of the group is reported by the next call that uses it.
void ShardedWeights::free_quietly() noexcept {
  try {
    for (std::size_t i = 0; i < units_.size(); ++i) free(i);
    current_ = 0;
  } catch (const std::exception& error) {
    log_debug("weights stay in memory: {}", error.what());
  }
}

void ShardedWeights::leave_forward() noexcept {
  if (--forwards_ == 0 && !at::GradMode::is_enabled() && !keeps_all_ && !is_in_backward()) free_quietly();
}

void ShardedWeights::leave_backward() noexcept {
  ++backwards_;
  if (!keeps_all_) free_quietly();
}

bool ShardedWeights::gather_all() {
  if (keeps_all_) return false;
  const std::size_t count = plan_.units.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (has_part(i)) free(i);
    start(whole_of(i));
  }
  for (std::size_t i = 0; i < count; ++i) finish(whole_of(i));
  keeps_all_ = true;
  return true;
}

}  // namespace lockstep
