#include "lockstep/parallel/step_agreement.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// max_norm, gradient_factor, zero_grad, check_finite, clips_only, norm_type
using RequestNumbers = std::array<double, 6>;

RequestNumbers numbers_of(const StepRequest& request) {
  const StepOptions& options = request.options;
  return {options.max_norm,
          options.gradient_factor,
          options.zero_grad ? 1.0 : 0.0,
          options.check_finite ? 1.0 : 0.0,
          request.clips_only ? 1.0 : 0.0,
          request.norm_type};
}

StepRequest request_of(const RequestNumbers& numbers) {
  StepRequest request;
  request.options.max_norm = numbers[0];
  request.options.gradient_factor = numbers[1];
  request.options.zero_grad = numbers[2] != 0;
  request.options.check_finite = numbers[3] != 0;
  request.clips_only = numbers[4] != 0;
  request.norm_type = numbers[5];
  return request;
}

std::string describe(const StepRequest& request) {
  const StepOptions& options = request.options;
  if (request.clips_only) return fmt::format("clip_grad_norm_ to {} by norm {}", options.max_norm, request.norm_type);
  return fmt::format("step with max_norm {}, gradient_factor {}, zero_grad {}, check_finite {}", options.max_norm,
                     options.gradient_factor, options.zero_grad, options.check_finite);
}

}  // namespace

StepAgreement::StepAgreement(std::size_t parameters, int world_size)
    : contributed_(parameters, 0), joined_(static_cast<std::size_t>(world_size), 0) {}

void StepAgreement::clear() {
  std::fill(contributed_.begin(), contributed_.end(), std::uint8_t{0});
  std::fill(joined_.begin(), joined_.end(), std::uint8_t{0});
  stale_ = false;
  has_request_ = false;
  request_ = StepRequest();
}

void StepAgreement::set_request(const StepRequest& request) {
  request_ = request;
  has_request_ = true;
}

void StepAgreement::exchange(Communicator& communicator) {
  const std::size_t request_bytes = sizeof(RequestNumbers);
  const std::size_t stale_at = contributed_.size() + joined_.size();
  const std::size_t request_at = stale_at + 1;
  at::Tensor message =
      at::empty({static_cast<std::int64_t>(request_at + 2 * request_bytes)}, at::TensorOptions().dtype(at::kByte));
  std::uint8_t* bytes = message.data_ptr<std::uint8_t>();
  std::copy(contributed_.begin(), contributed_.end(), bytes);
  std::copy(joined_.begin(), joined_.end(), bytes + contributed_.size());
  bytes[stale_at] = stale_ ? 1 : 0;
  // The request and its complement: the largest of all are each other's complement only where all are equal.
  std::fill(bytes + request_at, bytes + message.numel(), std::uint8_t{0});
  if (has_request_) {
    const RequestNumbers mine = numbers_of(request_);
    std::memcpy(bytes + request_at, mine.data(), request_bytes);
    for (std::size_t i = 0; i < request_bytes; ++i) {
      bytes[request_at + request_bytes + i] = static_cast<std::uint8_t>(~bytes[request_at + i]);
    }
  }
  if (communicator.world_size() > 1) communicator.all_reduce(message, ReduceOp::Max);
  std::copy(bytes, bytes + contributed_.size(), contributed_.begin());
  std::copy(bytes + contributed_.size(), bytes + stale_at, joined_.begin());
  stale_ = bytes[stale_at] != 0;
  if (active_ranks() == 0) return;
  for (std::size_t i = 0; i < request_bytes; ++i) {
    if (bytes[request_at + i] == static_cast<std::uint8_t>(~bytes[request_at + request_bytes + i])) continue;
    throw Error("the ranks of a fused optimizer disagree; here: " + describe(request_),
                communicator.membership().where() + ", fused optimizer",
                "make the same calls with the same options on every rank");
  }
  RequestNumbers agreed;
  std::memcpy(agreed.data(), bytes + request_at, request_bytes);
  request_ = request_of(agreed);
}

int StepAgreement::active_ranks() const {
  return static_cast<int>(std::count(joined_.begin(), joined_.end(), std::uint8_t{0}));
}

int StepAgreement::lowest_active_rank() const {
  const auto found = std::find(joined_.begin(), joined_.end(), std::uint8_t{0});
  return found == joined_.end() ? static_cast<int>(joined_.size()) - 1 : static_cast<int>(found - joined_.begin());
}

}  // namespace lockstep
