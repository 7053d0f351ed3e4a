#include "lockstep/parallel/fused/agreement/update_agreement.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace lockstep {
// kind, max_norm, gradient_factor, zero_grad, check_finite, then what clip_grad_norm_ was called with, factor, and the
// selection in two halves, because a double holds whole numbers only up to 2^53.
UpdateAgreement::RequestNumbers UpdateAgreement::numbers_of(const UpdateRequest& request) {
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

UpdateRequest UpdateAgreement::request_of(const RequestNumbers& numbers) {
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

UpdateAgreement::UpdateAgreement(std::size_t parameters, int world_size)
    : contributed_(parameters, 0),
      joined_(static_cast<std::size_t>(world_size), 0),
      request_slot_(equal<RequestNumbers>()),
      faulty_(any()) {}

std::size_t UpdateAgreement::claim(std::size_t bytes) {
  const std::size_t at = slots_.size();
  slots_.resize(at + bytes, 0);
  return at;
}

void UpdateAgreement::clear() {
  std::fill(contributed_.begin(), contributed_.end(), std::uint8_t{0});
  std::fill(joined_.begin(), joined_.end(), std::uint8_t{0});
  std::fill(slots_.begin(), slots_.end(), std::uint8_t{0});
  has_request_ = false;
  request_ = UpdateRequest();
}

void UpdateAgreement::set_request(const UpdateRequest& request) {
  request_ = request;
  has_request_ = true;
  say(request_slot_, numbers_of(request));
}

void UpdateAgreement::write(std::size_t at, const void* value, std::size_t size) {
  std::uint8_t* const bytes = &slots_[at];
  std::memcpy(bytes, value, size);
  for (std::size_t i = 0; i < size; ++i) bytes[size + i] = static_cast<std::uint8_t>(~bytes[i]);
}

bool UpdateAgreement::is_written(std::size_t at, std::size_t size) const {
  const auto begin = slots_.begin() + static_cast<std::ptrdiff_t>(at);
  return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(2 * size), [](std::uint8_t byte) { return byte != 0; });
}

bool UpdateAgreement::differs(std::size_t at, std::size_t distance) const {
  const std::uint8_t byte = slots_[at];
  const std::uint8_t complement = slots_[at + distance];
  return (byte != 0 || complement != 0) && byte != static_cast<std::uint8_t>(~complement);
}

void UpdateAgreement::exchange(Communicator& communicator) {
  const std::array<std::vector<std::uint8_t>*, 3> parts{&contributed_, &joined_, &slots_};
  if (communicator.world_size() > 1) {
    std::size_t size = 0;
    for (const auto* part : parts) size += part->size();
    if (!message_.defined()) {
      message_ = at::empty({static_cast<std::int64_t>(size)}, at::TensorOptions().dtype(at::kByte));
    }
    std::uint8_t* bytes = message_.data_ptr<std::uint8_t>();
    for (const auto* part : parts) bytes = std::copy(part->begin(), part->end(), bytes);
    communicator.all_reduce(message_, ReduceOp::Max);
    const std::uint8_t* from = message_.data_ptr<std::uint8_t>();
    for (auto* part : parts) {
      std::copy_n(from, part->size(), part->begin());
      from += part->size();
    }
  }
  if (active_ranks() == 0 || faulty() || requests_differ()) return;  // a rank that has found a fault names it
  const auto agreed = value(request_slot_);
  if (!agreed) return;
  std::vector<std::size_t> parameters = std::move(request_.parameters);
  request_ = request_of(*agreed);
  request_.parameters = std::move(parameters);
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
