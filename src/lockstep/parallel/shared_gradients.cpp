#include "lockstep/parallel/shared_gradients.h"

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace lockstep {

struct SharedGradients::Gradient {
  std::atomic<int> wrappers{0};
  std::mutex mutex;
  const SharedGradients* keeper = nullptr;
  const SharedGradients* taker = nullptr;
  std::weak_ptr<void> backward;  // of the taker
  bool was_averaged = false;     // by anyone, while several wrappers have had it
};

struct SharedGradients::All {
  std::mutex mutex;
  std::map<std::pair<const Communicator*, const c10::TensorImpl*>, std::weak_ptr<Gradient>> gradients;
};

// Never destroyed: a static wrapper may end after everything else.
SharedGradients::All& SharedGradients::all() {
  static auto& instance = *new All;
  return instance;
}

SharedGradients::SharedGradients(const Communicator* group, const std::vector<at::Tensor>& parameters) {
  All& known = all();
  const std::lock_guard<std::mutex> lock(known.mutex);
  for (const at::Tensor& parameter : parameters) {
    std::weak_ptr<Gradient>& entry = known.gradients[{group, parameter.unsafeGetTensorImpl()}];
    std::shared_ptr<Gradient> gradient = entry.lock();
    if (!gradient) entry = gradient = std::make_shared<Gradient>();
    ++gradient->wrappers;
    gradients_.push_back(std::move(gradient));
  }
}

SharedGradients::~SharedGradients() {
  All& known = all();
  const std::lock_guard<std::mutex> lock(known.mutex);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    keep(i, false);
    --gradients_[i]->wrappers;
    gradients_[i].reset();
  }
  for (auto entry = known.gradients.begin(); entry != known.gradients.end();) {
    entry = entry->second.expired() ? known.gradients.erase(entry) : std::next(entry);
  }
}

bool SharedGradients::is_elsewhere(std::size_t parameter) const {
  Gradient& gradient = *gradients_[parameter];
  if (gradient.wrappers < 2) return false;
  const std::lock_guard<std::mutex> lock(gradient.mutex);
  if (gradient.keeper != nullptr) return gradient.keeper != this;
  return gradient.taker != this && !gradient.backward.expired();
}

// Asked for gradients that this wrapper has never averaged.
bool SharedGradients::was_elsewhere(std::size_t parameter) const {
  Gradient& gradient = *gradients_[parameter];
  const std::lock_guard<std::mutex> lock(gradient.mutex);
  return gradient.was_averaged;
}

void SharedGradients::take_all(const std::weak_ptr<void>& backward) {
  for (const std::shared_ptr<Gradient>& gradient : gradients_) {
    if (gradient->wrappers < 2) continue;
    const std::lock_guard<std::mutex> lock(gradient->mutex);
    if (!gradient->backward.expired()) continue;
    gradient->taker = this;
    gradient->was_averaged = true;
    gradient->backward = backward;
  }
}

void SharedGradients::keep(std::size_t parameter, bool keeps) {
  Gradient& gradient = *gradients_[parameter];
  const std::lock_guard<std::mutex> lock(gradient.mutex);
  if (keeps) gradient.keeper = this;
  gradient.was_averaged = gradient.was_averaged || keeps;
  if (!keeps && gradient.keeper == this) gradient.keeper = nullptr;
}

}  // namespace lockstep
