#include "lockstep/detail/train/partial_state.h"

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/agreement.h"

namespace lockstep {

void PartialState::join(std::shared_ptr<Communicator> group, c10::Device device) {
  group_ = std::move(group);
  device_ = device;
}

void PartialState::one_first(bool is_first, const std::function<void()>& body) {
  run_together(*group_, "preparing what the other processes wait for", [&] {
    if (is_first) body();
  });
  if (!is_first) body();
}

std::pair<std::int64_t, std::int64_t> PartialState::share_of(std::int64_t count, int rank) const {
  const std::int64_t each = count / num_processes();
  const std::int64_t more = count % num_processes();
  const std::int64_t begin = rank * each + std::min<std::int64_t>(rank, more);
  return {begin, begin + each + (rank < more ? 1 : 0)};
}

at::Tensor PartialState::split_between_processes(const at::Tensor& input, bool apply_padding) const {
  const std::int64_t count = input.size(0);
  const auto [begin, end] = share_of(count, process_index());
  at::Tensor part = input.narrow(0, begin, end - begin);
  const auto [first, most] = share_of(count, 0);
  if (apply_padding && count > 0 && part.size(0) < most - first) {
    part = at::cat({part, input.narrow(0, count - 1, 1)}, 0);
  }
  return part;
}

void PartialState::require_same_length(const std::string& first, std::int64_t length, const std::string& other,
                                       std::int64_t other_length) {
  if (length == other_length) return;
  throw Error(fmt::format("'{}' has {} elements, but '{}' has {}", first, length, other, other_length),
              "Accelerator::split_between_processes", "give a map whose values all have the same length");
}

void PartialState::print(const std::string& line) const {
  if (!is_local_main_process()) return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace lockstep
