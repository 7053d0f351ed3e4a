#include "lockstep/parallel/fused/memory/published_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/optim/memory_piece.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/reduce_marks.h"
#include "lockstep/parallel/fused/memory/one_copy.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLineElements = 32;  // of two bytes in a cache line

std::int64_t whole_lines(std::int64_t numel) { return (numel + kLineElements - 1) / kLineElements * kLineElements; }

}  // namespace

PublishedCopies::PublishedCopies(UpdateContext& context)
    : plan_(context.plan),
      buckets_(context.buckets),
      gradients_(context.gradients),
      memory_(*context.memory),
      watch_(*context.watch),
      faults_(*context.faults),
      changes_(context.changes),
      agreement_(context.agreement),
      communicator_(*context.communicator),
      wishes_(context),
      slots_(gradients_.num_parameters()) {
  std::vector<at::Tensor> offered;
  for (const FusedBucket& bucket : buckets_) {
    if (bucket.weights.scalar_type() != at::ScalarType::Float) continue;
    for (const std::size_t i : bucket.parameters) {
      offered.push_back(gradients_.parameter(i));
      indices_.emplace(offered.back().unsafeGetTensorImpl(), i);
    }
  }
  offer_.emplace(offered, *this);
}

at::Tensor PublishedCopies::current_copy(const at::Tensor& parameter) {
  const auto found = indices_.find(parameter.unsafeGetTensorImpl());
  if (found == indices_.end()) return {};
  Slot& slot = slots_[found->second];
  if (!slot.copy.defined()) {
    slot.is_wanted.store(true, std::memory_order_relaxed);
    are_wanted_.store(true, std::memory_order_relaxed);
    return {};
  }
  return watch_.is_as_updated(found->second) ? slot.copy : at::Tensor();
}

void PublishedCopies::look() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const bool was_stale = slots_[i].was_stale.exchange(false, std::memory_order_relaxed);
    if (was_stale && !faults_.has_found()) faults_.add_if_none(i, FusedFault::CopyStale);
  }
  wishes_.say(!is_short_ && are_wanted_.load(std::memory_order_relaxed));
}

void PublishedCopies::take_up() {
  if (changes_.any()) renew();
  if (wishes_.any()) return make_wanted();
  if (num_copies_ == 0 && !is_short_) wishes_.note_unused();
}

// A rank that does not know of a write, as one that another rank made to a few elements, has read the old copy.
void PublishedCopies::renew() {
  const std::size_t count = slots_.size();
  std::vector<std::uint8_t> marks(2 * count);  // the copy was another; a rank did not know
  for (const FusedBucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::size_t index = bucket.parameters[i];
      if (changes_.anywhere[index] == 0) continue;
      marks[index] = round_again(bucket, i) ? 1 : 0;
      marks[count + index] = agreement_.has_request() && changes_.here[index] == 0 ? 1 : 0;
    }
  }
  reduce_marks(communicator_, marks);
  for (std::size_t i = 0; i < count; ++i) {
    if (marks[i] == 0 || marks[count + i] == 0) continue;
    throw AgreedError(
        fmt::format("parameter \"{}\" was written between two steps by some ranks, and another rank has not noticed: "
                    "its forward has read the bf16 copy without that write",
                    gradients_.name(i)),
        communicator_.membership().where() + ", fused optimizer",
        "write the same on every rank, under torch::NoGradGuard and without data(); or call own_weights() of "
        "what fuse has returned on every rank before you write");
  }
}

std::vector<std::uint8_t> PublishedCopies::wanted_by_any() {
  are_wanted_.store(false, std::memory_order_relaxed);  // first: what is asked for meanwhile is made next time
  std::vector<std::uint8_t> marks;
  for (const Slot& slot : slots_) marks.push_back(slot.is_wanted.load(std::memory_order_relaxed) ? 1 : 0);
  reduce_marks(communicator_, marks);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].copy.defined()) marks[i] = 0;
  }
  return marks;
}

void PublishedCopies::make_wanted() {
  const std::vector<std::uint8_t> wanted = wanted_by_any();
  try {
    place(wanted);
  } catch (const Error& error) {
    // All ranks know that memory is short. If instead the group has ended, the next call reports that.
    is_short_ = true;
    log_warning("fuse: layers cast weights that have no bf16 copy yet, because there is no memory for one: {}",
                error.happened());
    return;
  }
  for (const FusedBucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      if (wanted[bucket.parameters[i]] != 0) round_again(bucket, i);
    }
  }
  if (communicator_.world_size() > 1) communicator_.barrier();
  log_debug("fuse: {} of {} parameters have a bf16 copy, which forward reads", num_copies_, indices_.size());
}

// Matrices come first, in the order of registration, so that those that are multiplied together are neighbours.
void PublishedCopies::place(const std::vector<std::uint8_t>& wanted) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != 0) order.push_back(i);
  }
  std::stable_partition(order.begin(), order.end(), [&](std::size_t i) { return gradients_.parameter(i).dim() > 1; });
  std::int64_t numel = 0;
  for (const std::size_t i : order) numel += whole_lines(gradients_.parameter(i).numel());
  const std::int64_t share = kLineElements * communicator_.world_size();
  const at::Tensor all = allocate(std::max<std::int64_t>(1, (numel + share - 1) / share) * share);
  std::int64_t offset = 0;
  for (const std::size_t i : order) {
    const at::Tensor& parameter = gradients_.parameter(i);
    slots_[i].copy = memory_piece(all, offset, parameter.sizes());
    offset += whole_lines(parameter.numel());
  }
  num_copies_ += order.size();
}

at::Tensor PublishedCopies::allocate(std::int64_t numel) {
  const auto options = at::TensorOptions().dtype(at::kBFloat16);
  if (!plan_.shares_weights()) return allocate_own_copy(numel, options);
  if (plan_.has_one_copy()) return allocate_one_copy(communicator_, numel, options);
  return dynamic_cast<HostMemoryEngine&>(communicator_).allocate_for_host(numel, at::kBFloat16).memory;
}

std::uint16_t* PublishedCopies::bits(std::size_t parameter) const {
  return static_cast<std::uint16_t*>(slots_[parameter].copy.data_ptr());
}

void PublishedCopies::weights_are_here() {
  // Each rank of a host has rounded a part of what the other hosts have sent.
  if (std::exchange(has_received_, false) && plan_.shares_weights()) communicator_.barrier();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].was_stale.load(std::memory_order_relaxed)) continue;
    log_warning(
        "fuse: forward has read a bf16 copy of parameter \"{}\" that was out of date, because the parameter was "
        "written past autograd, as by data(); the next step is an Error",
        gradients_.name(i));
  }
}

void PublishedCopies::targets(std::size_t index, SegmentUpdate& update) {
  const FusedBucket& bucket = buckets_[index];
  std::vector<WeightCopy> result(bucket.parameters.size());
  bool any = false;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t parameter = bucket.parameters[i];
    if (!slots_[parameter].copy.defined()) continue;
    result[i] = {bits(parameter), &slots_[parameter].was_stale};
    any = true;
  }
  if (any) update.copies = std::move(result);
}

bool PublishedCopies::round_again(const FusedBucket& bucket, std::size_t place) {
  return round(bucket, place, bucket.filled.begin, bucket.filled.end);
}

void PublishedCopies::received(std::size_t bucket) {
  has_received_ = true;
  const FusedBucket& it = buckets_[bucket];
  const auto is_elsewhere = [&](int owner) {
    const auto host_of = [&](int rank) { return plan_.places[static_cast<std::size_t>(rank)].host; };
    return plan_.shares_weights() ? host_of(owner) != host_of(communicator_.rank()) : owner != communicator_.rank();
  };
  for (int owner = 0; owner < communicator_.world_size(); ++owner) {
    if (!is_elsewhere(owner)) continue;
    const Region& region = plan_.region(bucket, owner);
    const std::int64_t begin = std::max(region.begin, it.filled.begin);
    const std::int64_t end = std::min(region.end, it.filled.end);
    for (std::size_t i = 0; i < it.parameters.size(); ++i) round(it, i, begin, end);
  }
}

// @param begin, end  in the bucket
bool PublishedCopies::round(const FusedBucket& bucket, std::size_t place, std::int64_t begin, std::int64_t end) {
  const std::size_t parameter = bucket.parameters[place];
  if (!slots_[parameter].copy.defined()) return false;
  const std::int64_t offset = bucket.offsets[place];
  begin = std::max<std::int64_t>(0, begin - offset);
  end = std::min(slots_[parameter].copy.numel(), end - offset);
  if (begin >= end) return false;
  const float* weights = static_cast<const float*>(bucket.weights.data_ptr()) + offset;
  bool has_changed = false;
  memory_.access([&] {
    has_changed =
        round_to_bfloat16(weights, bits(parameter), static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
  return has_changed;
}

}  // namespace lockstep
