#include "lockstep/parallel/agreement/replica_watch.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/tensor_digest.h"

namespace lockstep {
namespace {

// Differences that rounding makes are smaller, relative to the largest element of a tensor: a few units in the last
// place of types of 16 bits.
double rounding_of(at::ScalarType type) {
  if (type == at::kBFloat16) return 0x1p-5;
  return type == at::kHalf ? 0x1p-8 : 1e-3;
}

constexpr std::uint32_t kElementBits = 0xfff, kBufferBits = 0xff000, kWriteBits = 0xfff00000;
constexpr int kBufferShift = 12;

// So many comparisons in a row, because of writes that were equal in the end, are no chance.
constexpr int kNeedless = 8;

std::uint32_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

// The bits of one element; over many looks, every element has its turn.
std::uint64_t element_of(const at::Tensor& tensor, std::uint64_t look) {
  const auto numel = static_cast<std::uint64_t>(tensor.numel());
  if (numel == 0 || !tensor.device().is_cpu() || !tensor.is_non_overlapping_and_dense()) return 0;
  // Multiples of the golden ratio fill the interval evenly (Weyl).
  const std::uint64_t fraction = look * 0x9e3779b97f4a7c15ULL >> 32;
  const std::uint64_t index = numel < (std::uint64_t{1} << 32) ? fraction * numel >> 32 : fraction;
  const auto size = static_cast<std::size_t>(tensor.element_size());
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(tensor.data_ptr()) + index * size, std::min(size, sizeof(bits)));
  return bits;
}

struct Distance {
  int rank = 0;      // the rank that is farthest from rank 0
  double size = -1;  // the largest difference of their elements, relative to rank 0's largest element; NaN is farthest
};

// Collective, with the same result on every rank.
Distance largest_distance(Communicator& communicator, const at::Tensor& tensor) {
  at::Tensor first = tensor.detach().contiguous().clone();
  communicator.broadcast(first, 0);
  const at::Tensor own = tensor.detach().to(at::kDouble), expected = first.to(at::kDouble);
  const at::Tensor is_equal = own.eq(expected).logical_or(own.isnan().logical_and(expected.isnan()));  // also inf
  const double largest = (own - expected).abs().masked_fill(is_equal, 0).max().item<double>();
  const double size = largest == 0 ? 0 : largest / expected.abs().max().item<double>();
  at::Tensor sizes = at::empty({communicator.world_size()}, at::TensorOptions().dtype(at::kDouble));
  communicator.all_gather(sizes, at::full({1}, size, sizes.options()));
  const int rank = sizes.argmax().item<int>();  // NaN counts as the largest
  return {rank, sizes[rank].item<double>()};
}

}  // namespace

ReplicaWatch::ReplicaWatch(std::vector<NamedTensor> tensors) {
  for (NamedTensor& entry : tensors) {
    const bool is_strided = entry.tensor.layout() == at::kStrided;
    const bool is_here = is_strided && entry.tensor.has_storage();  // a deferred weight is written to on every rank
    const void* data = is_here ? entry.tensor.data_ptr() : nullptr;
    const std::uint32_t version = version_of(entry.tensor);
    watched_.push_back({std::move(entry), data, version, !is_strided});
  }
}

std::vector<NamedTensor> ReplicaWatch::tensors() const {
  std::vector<NamedTensor> result;
  for (const Watched& watched : watched_) result.push_back(watched.entry);
  return result;
}

std::uint32_t ReplicaWatch::look() {
  if (is_stopped_) return 0;
  const std::uint64_t buffers = buffers_.look();
  std::uint64_t writes = 0, elements = 0;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& watched = watched_[i];
    if (watched.is_left_out) continue;
    const at::Tensor& tensor = watched.entry.tensor;
    const void* data = std::exchange(watched.data, tensor.data_ptr());
    const std::uint32_t version = std::exchange(watched.version, version_of(tensor));
    const std::uint64_t write = (std::uint64_t{watched.version - version} << 1) | (watched.data != data ? 1 : 0);
    if (write != 0) writes = mix_bits(writes + mix_bits(i + 1) + write);
    elements = mix_bits(elements + element_of(tensor, looks_));
  }
  ++looks_;
  return static_cast<std::uint32_t>(((writes >> 32) & kWriteBits) | (buffers << kBufferShift & kBufferBits) |
                                    (elements & kElementBits));
}

void ReplicaWatch::compare(Communicator& communicator, std::uint32_t differing_bits) {
  const at::NoGradGuard no_grad;
  if ((differing_bits & kBufferBits) != 0 && looks_ >= next_buffer_comparison_) {
    if (!buffers_.compare(communicator)) next_buffer_comparison_ = 2 * looks_;
  }
  const bool writes_differ = (differing_bits & kWriteBits) != 0;
  const bool elements_differ = (differing_bits & kElementBits) != 0 && looks_ >= next_comparison_;
  const bool is_needless = (writes_differ || elements_differ) && !compare_tensors(communicator);
  if (!is_needless) needless_comparisons_ = 0;
  if (is_needless && ++needless_comparisons_ == kNeedless) note_needless_comparison(communicator);
}

void ReplicaWatch::note_needless_comparison(Communicator& communicator) {
  if (std::exchange(has_noted_, true) || communicator.rank() != 0) return;
  std::size_t bytes = 0;
  for (const Watched& watched : watched_) bytes += watched.is_left_out ? 0 : watched.entry.tensor.nbytes();
  log_warning(
      "before {} backwards in a row the ranks had written parameters differently but ended with equal ones, so each of "
      "these backwards compared all parameters ({:.0f} MB on each rank). If that is intended, as in a program's own "
      "sharded optimizer, set watch_replicas = false: then nothing is compared, and replicas that drift apart are not "
      "noticed",
      kNeedless, static_cast<double>(bytes) / 1e6);
}

// @return  whether some tensor differs
bool ReplicaWatch::compare_tensors(Communicator& communicator) {
  std::vector<at::Tensor> tensors;
  std::vector<const NamedTensor*> entries;
  for (const Watched& watched : watched_) {
    if (watched.is_left_out) continue;
    tensors.push_back(watched.entry.tensor);
    entries.push_back(&watched.entry);
  }
  // The one beyond rounding if there is one: a small difference elsewhere must not hide it. NaN counts as beyond.
  Distance farthest;
  std::size_t index = 0;
  double excess = -1;  // as a multiple of what rounding makes
  for (const TensorDifference& each : find_tensor_differences(communicator, tensors)) {
    const Distance distance = largest_distance(communicator, tensors[each.index]);
    const double multiple = distance.size / rounding_of(tensors[each.index].scalar_type());
    if (multiple <= excess) continue;
    farthest = distance;
    if (distance.size == 0) farthest.rank = each.rank;  // equal numbers of different bits, such as zeros of both signs
    index = each.index;
    excess = multiple;
    if (!(excess <= 1)) break;
  }
  if (farthest.size == -1) return false;
  const std::string what = fmt::format(
      "parameter \"{}\" is not the same on rank {} as on rank 0: they differ by up to {:.3g} of its "
      "largest element",
      entries[index]->name, farthest.rank, farthest.size);
  if (!(excess <= 1)) {
    throw AgreedError(
        what, communicator.membership().where() + ", DistributedDataParallel",
        "write, load and update parameters on every rank alike, by the same values; let a closure of LBFGS, a "
        "scheduler or early stopping look at the mean of all ranks' losses "
        "(docs/reference/needs-more-than-the-wrap.md); name those that may differ in "
        "parameters_and_buffers_to_ignore; for a method that changes weights on each rank alone during a backward, "
        "such as SAM, set watch_replicas = false");
  }
  if (looks_ < next_comparison_) return true;
  next_comparison_ = 2 * looks_;  // the difference stays, so comparing in every step would be slow
  if (communicator.rank() != 0) return true;
  log_warning(
      "{}. Processors of different kinds may round updates differently; if all ranks run on the same kind, look for "
      "code that only some ranks run",
      what);
  return true;
}

}  // namespace lockstep
