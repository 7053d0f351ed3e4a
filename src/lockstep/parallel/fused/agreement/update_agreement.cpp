#include "lockstep/parallel/fused/agreement/update_agreement.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {
namespace {

// kind, max_norm, gradient_factor, zero_grad, check_finite, then what clip_grad_norm_ was called with, factor, and the
// selection in two halves, because a double holds whole numbers only up to 2^53.
using RequestNumbers = std::array<double, 11>;

RequestNumbers numbers_of(const UpdateRequest& request) {
  const StepOptions& options = request.options;
  return {static_cast<double>(request.kind),
          options.max_norm,
          options.gradient_factor,
          options.zero_grad ? 1.0 : 0.0,
          options.check_finite ? 1.0 : 0.0,
          request.clip.max_norm,
          request.clip.norm_type,
          request.clip.error_if_nonfinite ? 1.0 : 0.0,
          request.factor,
          static_cast<double>(request.selection >> 32),
          static_cast<double>(request.selection & 0xffffffff)};
}

UpdateRequest request_of(const RequestNumbers& numbers) {
  UpdateRequest request;
  request.kind = static_cast<UpdateRequest::Kind>(static_cast<int>(numbers[0]));
  request.options.max_norm = numbers[1];
  request.options.gradient_factor = numbers[2];
  request.options.zero_grad = numbers[3] != 0;
  request.options.check_finite = numbers[4] != 0;
  request.clip = {numbers[5], numbers[6], numbers[7] != 0};
  request.factor = numbers[8];
  request.selection = (static_cast<std::uint64_t>(numbers[9]) << 32) | static_cast<std::uint64_t>(numbers[10]);
  return request;
}

// A value and its complement. The maxima over all ranks are complements of each other only if all values are equal.
template <typename Value>
void write_with_complement(const Value& value, std::uint8_t* bytes) {
  std::memcpy(bytes, &value, sizeof(value));
  for (std::size_t i = 0; i < sizeof(value); ++i) bytes[sizeof(value) + i] = static_cast<std::uint8_t>(~bytes[i]);
}

// Whether ranks wrote different values for a byte, whose complement is `distance` bytes behind it. Zeros on ranks that
// wrote nothing do not count.
bool differs(const std::uint8_t* byte, std::size_t distance) {
  const bool is_written = byte[0] != 0 || byte[distance] != 0;
  return is_written && byte[0] != static_cast<std::uint8_t>(~byte[distance]);
}

// The same of a value of `size` bytes.
bool any_differs(const std::uint8_t* value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    if (differs(value + i, size)) return true;
  }
  return false;
}

}  // namespace

UpdateAgreement::UpdateAgreement(std::size_t parameters, int world_size)
    : contributed_(parameters, 0), joined_(static_cast<std::size_t>(world_size), 0) {}

void UpdateAgreement::clear() {
  std::fill(contributed_.begin(), contributed_.end(), std::uint8_t{0});
  std::fill(joined_.begin(), joined_.end(), std::uint8_t{0});
  stale_ = faulty_ = moved_ = wants_copies_ = false;
  bits_.reset();
  kept_sums_.reset();
  sums_differ_ = false;
  update_.reset();
  updates_differ_ = false;
  common_.reset();
  settings_.reset();
  place_.reset();
  left_out_.reset();
  terms_differ_ = common_differs_ = left_out_differs_ = false;
  has_request_ = false;
  request_ = UpdateRequest();
}

void UpdateAgreement::set_request(const UpdateRequest& request) {
  request_ = request;
  has_request_ = true;
}

void UpdateAgreement::exchange(Communicator& communicator) {
  const std::size_t request_bytes = sizeof(RequestNumbers);
  const std::size_t stale_at = contributed_.size() + joined_.size();
  const std::size_t request_at = stale_at + 4;
  const std::size_t bits_at = request_at + 2 * request_bytes;
  const std::size_t sums_at = bits_at + 2 * sizeof(std::uint32_t);
  const std::size_t update_at = sums_at + 2;
  const std::size_t settings_at = update_at + 2 * sizeof(std::uint64_t);
  const std::size_t place_at = settings_at + 2 * sizeof(std::uint64_t);
  const std::size_t left_out_at = place_at + 2 * sizeof(std::uint64_t);
  const std::size_t common_at = left_out_at + 2 * sizeof(std::uint16_t);
  const std::size_t end = common_at + 2 * sizeof(std::uint64_t);
  at::Tensor message = at::empty({static_cast<std::int64_t>(end)}, at::TensorOptions().dtype(at::kByte));
  std::uint8_t* bytes = message.data_ptr<std::uint8_t>();
  std::copy(contributed_.begin(), contributed_.end(), bytes);
  std::copy(joined_.begin(), joined_.end(), bytes + contributed_.size());
  bytes[stale_at] = stale_ ? 1 : 0;
  bytes[stale_at + 1] = faulty_ ? 1 : 0;
  bytes[stale_at + 2] = moved_ ? 1 : 0;
  bytes[stale_at + 3] = wants_copies_ ? 1 : 0;
  std::fill(bytes + request_at, bytes + message.numel(), std::uint8_t{0});
  if (has_request_) write_with_complement(numbers_of(request_), bytes + request_at);
  if (bits_) write_with_complement(*bits_, bytes + bits_at);
  if (kept_sums_) write_with_complement(*kept_sums_, bytes + sums_at);
  if (update_) write_with_complement(*update_, bytes + update_at);
  if (settings_) write_with_complement(*settings_, bytes + settings_at);
  if (place_) write_with_complement(*place_, bytes + place_at);
  if (common_) write_with_complement(*common_, bytes + common_at);
  if (left_out_) write_with_complement(*left_out_, bytes + left_out_at);
  if (communicator.world_size() > 1) communicator.all_reduce(message, ReduceOp::Max);
  std::copy(bytes, bytes + contributed_.size(), contributed_.begin());
  std::copy(bytes + contributed_.size(), bytes + stale_at, joined_.begin());
  stale_ = bytes[stale_at] != 0;
  faulty_ = bytes[stale_at + 1] != 0;
  moved_ = bytes[stale_at + 2] != 0;
  wants_copies_ = bytes[stale_at + 3] != 0;
  differing_bits_ = 0;
  for (std::size_t i = 0; i < sizeof(std::uint32_t); ++i) {
    if (differs(bytes + bits_at + i, sizeof(std::uint32_t))) differing_bits_ |= std::uint32_t{0xff} << (8 * i);
  }
  sums_differ_ = differs(bytes + sums_at, 1);
  kept_sums_ = bytes[sums_at];
  updates_differ_ = any_differs(bytes + update_at, sizeof(std::uint64_t));
  left_out_differs_ = any_differs(bytes + left_out_at, sizeof(std::uint16_t));
  common_differs_ = any_differs(bytes + common_at, sizeof(std::uint64_t));
  const bool requests_differ = any_differs(bytes + request_at, request_bytes);
  terms_differ_ = requests_differ || any_differs(bytes + settings_at, sizeof(std::uint64_t)) ||
                  any_differs(bytes + place_at, sizeof(std::uint64_t));
  if (active_ranks() == 0 || faulty_ || requests_differ) return;  // a rank that has found a fault names it
  RequestNumbers agreed;
  std::memcpy(agreed.data(), bytes + request_at, sizeof(agreed));
  request_ = request_of(agreed);
}

std::vector<bool> UpdateAgreement::active() const {
  std::vector<bool> result;
  for (const std::uint8_t joined : joined_) result.push_back(joined == 0);
  return result;
}

int UpdateAgreement::active_ranks() const {
  return static_cast<int>(std::count(joined_.begin(), joined_.end(), std::uint8_t{0}));
}

int UpdateAgreement::lowest_active_rank() const {
  const auto found = std::find(joined_.begin(), joined_.end(), std::uint8_t{0});
  return found == joined_.end() ? static_cast<int>(joined_.size()) - 1 : static_cast<int>(found - joined_.begin());
}

}  // namespace lockstep
