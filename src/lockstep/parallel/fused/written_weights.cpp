#include "lockstep/parallel/fused/written_weights.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/reduce_marks.h"
#include "lockstep/parallel/agreement/tensor_digest.h"

namespace lockstep {
namespace {

constexpr std::uint8_t kMoved = WeightChanges::kMoved;
constexpr std::uint8_t kOwned = WeightChanges::kOwned;

}  // namespace

WrittenWeights::WrittenWeights(UpdateContext& context)
    : plan_(context.plan),
      gradients_(context.gradients),
      buckets_(context.buckets),
      watch_(*context.watch),
      weights_(*context.weights),
      changes_(context.changes),
      communicator_(*context.communicator),
      agreement_(context.agreement),
      moved_(agreement_.any()) {}

void WrittenWeights::look() {
  if (any_here()) agreement_.say(moved_);
}

bool WrittenWeights::any_here() const {
  if (watch_.any_writes()) return true;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i) {
      if (weights_.is_moved(b, i)) return true;
    }
  }
  return false;
}

// By parameter, how this rank's program has written weights since the last update.
std::vector<std::uint8_t> WrittenWeights::own_changes() const {
  std::vector<std::uint8_t> result;
  for (const WeightWrite write : watch_.writes()) result.push_back(static_cast<std::uint8_t>(write));
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i) {
      const std::size_t index = buckets_[b].parameters[i];
      if (weights_.is_moved(b, i)) result[index] = watch_.has_own_memory(index) ? kOwned : kMoved;
    }
  }
  return result;
}

void WrittenWeights::take_up() {
  changes_.clear();
  if (!agreement_.said(moved_)) return;
  changes_.here = own_changes();
  if (plan_.shares_weights()) warn_of_shared_writes(changes_.here);
  changes_.anywhere = changes_.here;
  reduce_marks(communicator_, changes_.anywhere);
  weights_.check_comparable(changes_);
  check_equal();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i) {
      if (weights_.is_moved(b, i)) weights_.adopt(b, i);
    }
  }
  if (communicator_.world_size() > 1) communicator_.barrier();
  watch_.take_weights();
}

void WrittenWeights::check_equal() const {
  const std::vector<std::uint8_t>& changes = changes_.anywhere;
  std::vector<at::Tensor> changed;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const bool is_one_copy = plan_.has_one_copy() && changes[i] < kOwned;
    if (changes[i] == 0 || is_one_copy) continue;
    changed.push_back(gradients_.parameter(i));
    indices.push_back(i);
  }
  const auto difference = find_tensor_difference(communicator_, changed);
  if (!difference) return;
  const std::size_t index = indices[difference->index];
  const bool is_moved = changes[index] == kMoved;
  throw AgreedError(
      fmt::format("parameter \"{}\" was {}, and rank {} has other values there than rank 0", gradients_.name(index),
                  is_moved ? "moved to other memory after fuse, as torch::load does" : "written after the last step",
                  difference->rank),
      communicator_.membership().where() + ", fused optimizer",
      is_moved ? "load the same file on every rank; ranks that load nothing keep the weights that they had"
               : "call step() of the optimizer that fuse was given, and of no other over the same parameters; what is "
                 "written by hand must be the same on every rank");
}

// A write past LibTorch's operations is in shared memory, whose values cannot be compared. It is only visible
// that several ranks have written.
void WrittenWeights::warn_of_shared_writes(const std::vector<std::uint8_t>& changes) {
  if (has_warned_ || communicator_.world_size() == 1) return;
  const auto count = static_cast<std::int64_t>(changes.size());
  // By host: how many ranks wrote, and how many saw it.
  at::Tensor ranks = at::zeros({plan_.hosts, 2, count}, at::TensorOptions().dtype(at::kInt));
  const int host = plan_.places[static_cast<std::size_t>(communicator_.rank())].host;
  std::int32_t* wrote = ranks[host].data_ptr<std::int32_t>();
  std::int32_t* saw = wrote + count;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    wrote[i] = changes[i] == static_cast<std::uint8_t>(WeightWrite::Known) ? 1 : 0;
    saw[i] = changes[i] == static_cast<std::uint8_t>(WeightWrite::Seen) ? 1 : 0;
  }
  communicator_.all_reduce(ranks, ReduceOp::Sum);
  for (std::size_t k = 0; k < changes.size() * static_cast<std::size_t>(plan_.hosts); ++k) {
    const std::size_t i = k % changes.size();
    wrote = ranks[static_cast<std::int64_t>(k / changes.size())].data_ptr<std::int32_t>();
    saw = wrote + count;
    if (wrote[i] == 1 || wrote[i] + saw[i] == 0) continue;
    has_warned_ = true;
    if (communicator_.rank() == 0) {
      log_warning(
          "fuse: parameter \"{}\" was written between two steps {}, in memory that all ranks of a host share. That is "
          "correct if one rank wrote between two barriers, or if all ranks wrote the same values no matter what was "
          "there, as a clamp does; an update that depends on the old values (an average that is swapped in and back, "
          "another optimizer) gives random results. Call own_weights() of what fuse has returned before writing: "
          "each rank then writes to weights "
          "of its own, and the next step compares them",
          gradients_.name(i), wrote[i] > 1 ? fmt::format("by {} ranks", wrote[i]) : "past autograd, as by data_ptr()");
    }
    return;
  }
}

}  // namespace lockstep
