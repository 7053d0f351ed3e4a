#include "lockstep/parallel/agreement/state_watch.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "lockstep/parallel/agreement/tensor_digest.h"

namespace lockstep {
namespace {

std::atomic<StateWatch*> current_watch{nullptr};

// Deferred weights have none until they are made.
bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_meta() && tensor.has_storage() &&
         tensor.numel() > 0;
}

// A program may have one tensor for many, which are views of it, or another tensor of the same memory, as `detach`
// makes it.
bool lies_in(const at::Tensor& part, const at::Tensor& whole) {
  if (!has_memory(whole) || !has_memory(part) || !whole.is_contiguous()) return false;
  const auto* const first = static_cast<const std::byte*>(whole.data_ptr());
  const auto* const from = static_cast<const std::byte*>(part.data_ptr());
  return from >= first && from + part.nbytes() <= first + whole.nbytes();
}

std::uint64_t watched_value(const at::Tensor& tensor, bool is_buffer) {
  if (is_buffer) return tensor_digest(tensor);
  return tensor.is_inference() ? 0 : tensor._version();
}

}  // namespace

StateWatch::StateWatch(std::vector<at::Tensor> kept) : kept_(std::move(kept)) {
  StateWatch* none = nullptr;
  current_watch.compare_exchange_strong(none, this);
}
StateWatch::~StateWatch() {
  StateWatch* self = this;
  current_watch.compare_exchange_strong(self, nullptr);
}
StateWatch* StateWatch::current() { return current_watch; }

bool StateWatch::keeps(const at::Tensor& tensor) const {
  const auto is_kept = [&](const at::Tensor& each) { return each.is_same(tensor) || lies_in(tensor, each); };
  return std::any_of(kept_.begin(), kept_.end(), is_kept);
}

void StateWatch::add(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers) {
  if (is_taking_) return;
  for (const NamedTensor& each : parameters) wrapped_.push_back({each, false, 0});
  for (const NamedTensor& each : buffers) wrapped_.push_back({each, true, 0});
}

void StateWatch::start_over() {
  wrapped_.clear();
  others_.clear();
  is_taking_ = false;
}

// Not when a module is wrapped: an update that is fused after it gives weights other memory, which the state must have.
void StateWatch::take() {
  is_taking_ = true;
  others_.clear();
  for (std::size_t i = 0; i < wrapped_.size(); ++i) {
    const at::Tensor& tensor = wrapped_[i].named.tensor;
    if (!has_memory(tensor) || keeps(tensor)) continue;
    wrapped_[i].value = watched_value(tensor, wrapped_[i].is_buffer);
    others_.push_back(i);
  }
}

std::string StateWatch::changed() {
  is_taking_ = false;
  for (const std::size_t i : std::exchange(others_, {})) {
    const Watched& each = wrapped_[i];
    if (watched_value(each.named.tensor, each.is_buffer) != each.value) return each.named.name;
  }
  return "";
}

}  // namespace lockstep
