#include "lockstep/parallel/agreement/buffer_watch.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "lockstep/base/log.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/agreement/rank_difference.h"
#include "lockstep/parallel/agreement/tensor_digest.h"

namespace lockstep {
namespace {

constexpr const char* kAdvice =
    "Buffers are not sent if broadcast_buffers is false or the module is not in training: write and load them on every "
    "rank alike, or name those that may differ in parameters_and_buffers_to_ignore";

at::Tensor long_of(std::uint64_t value) {
  return at::full({1}, static_cast<std::int64_t>(value), at::TensorOptions().dtype(at::kLong));
}

}  // namespace

std::uint64_t BufferWatch::look() {
  if (list_) buffers_ = list_();
  const bool is_known = buffers_.size() == seen_.size();
  seen_.resize(buffers_.size());
  std::uint64_t all = buffers_.empty() ? 0 : mix_bits(buffers_.size());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const at::Tensor& buffer = buffers_[i].tensor;
    const Seen before = seen_[i];
    seen_[i].data = buffer.layout() == at::kStrided ? buffer.data_ptr() : nullptr;
    seen_[i].version = buffer.is_inference() ? 0 : buffer._version();
    seen_[i].writes = 0;
    if (!is_known || seen_[i].data == nullptr) continue;
    seen_[i].writes = std::uint64_t{seen_[i].version - before.version} << 1 | (seen_[i].data != before.data ? 1 : 0);
    if (seen_[i].writes != 0) all = mix_bits(all + mix_bits(i + 1) + seen_[i].writes);
  }
  return all;
}

bool BufferWatch::compare(Communicator& communicator) {
  std::vector<std::string> names;
  std::vector<at::Tensor> writes, values;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    names.push_back(buffers_[i].name);
    writes.push_back(long_of(seen_[i].writes));
    values.push_back(seen_[i].data == nullptr ? long_of(0) : buffers_[i].tensor);
  }
  if (const auto difference = first_difference(communicator, names)) {
    if (communicator.rank() == 0) log_warning("the ranks have different buffers: {}. {}", difference->text(), kAdvice);
    return false;
  }
  const auto written = find_tensor_differences(communicator, writes);
  for (const TensorDifference& different : find_tensor_differences(communicator, values)) {
    const auto is_it = [&](const TensorDifference& each) { return each.index == different.index; };
    const auto found = std::find_if(written.begin(), written.end(), is_it);
    if (found == written.end()) continue;
    if (communicator.rank() == 0) {
      log_warning(
          "buffer \"{}\" was written or loaded on rank {} otherwise than on rank 0, and now has other values there. {}",
          names[found->index], found->rank, kAdvice);
    }
    return false;
  }
  return true;
}

}  // namespace lockstep
