// What LibTorch calls before each operation on a watched tensor.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/parallel/fused/weights/watched_key.h"

namespace lockstep {
namespace {

// The parameters that an operation reads.
class Reads {
 public:
  Reads() = default;
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;
  ~Reads() {
    for (const auto& [watcher, parameter] : begun_) watcher->end_read(parameter);
  }
  void begin(const at::Tensor& tensor) {
    if (!tensor.defined() || !is_watched(tensor)) return;
    const auto [watcher, parameter] = watcher_of(tensor);
    if (watcher == nullptr) return;
    watcher->begin_read(parameter);
    begun_.emplace_back(watcher, parameter);
  }

 private:
  std::vector<std::pair<ReadWatcher*, std::size_t>> begun_;
};

template <typename Body>
void for_each_tensor(const c10::IValue& value, const Body& body) {
  if (value.isTensor()) {
    body(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) body(tensor);
  } else if (value.isList()) {  // of tensors that may be missing
    for (const c10::IValue& entry : value.toListRef()) {
      if (entry.isTensor()) body(entry.toTensor());
    }
  }
}

// Operations that read sizes and types, and no element.
bool reads_no_element(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::empty_like", "aten::zeros_like", "aten::ones_like",      "aten::full_like",
      "aten::rand_like",  "aten::randn_like", "aten::new_empty",      "aten::new_zeros",
      "aten::new_ones",   "aten::new_full",   "aten::requires_grad_", "aten::_has_compatible_shallow_copy_type"};
  return names.count(name) != 0;
}

// set_data of one parameter by another's: it would share memory that comes and goes.
void check_set_data(const std::string& name, const c10::IValue& content) {
  if (name != "aten::_has_compatible_shallow_copy_type" || !content.isTensor()) return;
  if (!is_watched(content.toTensor())) return;
  throw Error("set_data was given a weight that is sharded among ranks", "fused optimizer of stage 3",
              "give it a clone() that was made between unshard() and reshard()");
}

thread_local CallBelow call_below = nullptr;

void before_operation(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::string& name = operation.schema().name();
  const std::size_t arguments = operation.schema().arguments().size();
  Reads reads;
  if (reads_no_element(name)) {
    check_set_data(name, stack->back());
  } else {
    for (std::size_t i = 0; i < arguments; ++i) {
      for_each_tensor((*stack)[stack->size() - arguments + i], [&](const at::Tensor& tensor) { reads.begin(tensor); });
    }
  }
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kWatchedKey);
  if (call_below != nullptr) {
    call_below(operation, below, stack);
  } else {
    operation.redispatchBoxed(below, stack);
  }
  const std::size_t results = operation.schema().returns().size();
  for (std::size_t i = 0; i < results; ++i) {
    for_each_tensor((*stack)[stack->size() - results + i], watch_by_memory);
  }
}

}  // namespace

void set_call_below(CallBelow call) { call_below = call; }

void watch_operations() {
  static std::once_flag once;
  std::call_once(once, [] {
    call_before_operations(kWatchedKey, [] { return torch::CppFunction::makeFromBoxedFunction<&before_operation>(); });
  });
}

}  // namespace lockstep
