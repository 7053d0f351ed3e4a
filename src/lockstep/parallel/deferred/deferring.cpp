// What LibTorch calls before each operation while a model is built whose weights are made later.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/zero_pages.h"
#include "lockstep/parallel/deferred.h"
#include "lockstep/parallel/deferred/deferred_parameters.h"
#include "lockstep/parallel/fused/weights/watched_key.h"

namespace lockstep::detail {
namespace {

constexpr std::size_t kLeastDeferredBytes = 64 << 10;

using Operands = c10::ArrayRef<c10::IValue>;

// Operations that give every element of their first operand a new value, and return it.
bool overwrites(const c10::FunctionSchema& schema) {
  static const std::unordered_set<std::string> names{"aten::fill_",       "aten::zero_",        "aten::copy_",
                                                     "aten::uniform_",    "aten::normal_",      "aten::random_",
                                                     "aten::bernoulli_",  "aten::exponential_", "aten::geometric_",
                                                     "aten::log_normal_", "aten::cauchy_"};
  return names.count(schema.name()) != 0;
}

// Others that change its elements alone, as schemes of initialisation do.
bool changes_elements(const c10::FunctionSchema& schema) {
  static const std::unordered_set<std::string> names{
      "aten::add_",       "aten::sub_",       "aten::mul_",    "aten::div_",   "aten::neg_",
      "aten::abs_",       "aten::sqrt_",      "aten::erfinv_", "aten::clamp_", "aten::tanh_",
      "aten::clamp_min_", "aten::clamp_max_", "aten::trunc_",  "aten::sign_",  "aten::masked_fill_"};
  return names.count(schema.name()) != 0;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Makes views, or reads sizes.
bool reads_sizes_alone(const c10::FunctionSchema& schema) {
  static const std::unordered_set<std::string> names{
      "aten::empty_like", "aten::zeros_like", "aten::ones_like", "aten::requires_grad_",
      "aten::rand_like",  "aten::randn_like", "aten::full_like", "aten::_has_compatible_shallow_copy_type"};
  const auto aliases = [](const c10::Argument& result) { return result.alias_info() != nullptr; };
  const auto& results = schema.returns();
  const bool writes = std::any_of(schema.arguments().begin(), schema.arguments().end(), is_written);
  const bool makes_views = !writes && !results.empty() && std::all_of(results.begin(), results.end(), aliases);
  return makes_views || names.count(schema.name()) != 0;
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  std::vector<at::Tensor> tensors;
  if (value.isList()) {  // of tensors that may be missing
    for (const c10::IValue& entry : value.toListRef()) {
      if (entry.isTensor()) tensors.push_back(entry.toTensor());
    }
  }
  return tensors;
}

// Null if the tensor has no memory that could be a parameter's.
const c10::StorageImpl* storage_behind(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu() || tensor.layout() != at::kStrided || !tensor.has_storage()) {
    return nullptr;
  }
  return tensor.storage().unsafeGetStorageImpl();
}

bool can_be_deferred(const at::Tensor& tensor) {
  return storage_behind(tensor) != nullptr && tensor.requires_grad() && tensor.is_leaf() && !tensor.is_inference() &&
         tensor.is_non_overlapping_and_dense() && tensor.storage_offset() == 0 && !is_watched(tensor) &&
         tensor.nbytes() >= kLeastDeferredBytes && tensor.nbytes() == tensor.storage().nbytes();
}

// Whether the first operand alone is written, and nothing that is read may change with it.
bool can_be_noted(const c10::FunctionSchema& schema, Operands operands) {
  if (!overwrites(schema) && !changes_elements(schema)) return false;
  const at::Tensor& target = operands[0].toTensor();
  if (storage_behind(target) == nullptr) return false;
  if (at::GradMode::is_enabled() && target.requires_grad()) return false;  // LibTorch refuses it
  for (std::size_t i = 1; i < operands.size(); ++i) {
    for (const at::Tensor& source : tensors_in(operands[i])) {
      if (!source.defined()) continue;
      if (source.is_inference() || is_watched(source) || storage_behind(source) == storage_behind(target)) return false;
    }
  }
  return true;
}

DeferredWrite write_of(const c10::OperatorHandle& operation, Operands operands) {
  const at::Tensor& target = operands[0].toTensor();
  DeferredWrite write{operation, operands.slice(1).vec(), target.sizes().vec(), target.strides().vec()};
  write.offset = target.storage_offset();
  const auto& arguments = operation.schema().arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].name() == "generator") {
      at::Generator generator = operands[i].isNone() ? at::detail::getDefaultCPUGenerator() : operands[i].toGenerator();
      const std::lock_guard<std::mutex> lock(generator.mutex());
      write.generator_place = i;
      write.generator = generator.clone();
    }
    for (const at::Tensor& source : tensors_in(operands[i])) {
      if (!source.defined()) continue;
      write.sources.emplace_back(source, source.unsafeGetTensorImpl()->version_counter().current_version());
    }
  }
  return write;
}

}  // namespace

class Deferring::Recorder {
 public:
  // All operations of this thread are calls of the fallback meanwhile.
  Recorder() : include_(kWatchedKey) {
    of_thread_ = this;
    set_call_below(&before_operation);
  }
  ~Recorder() {
    set_call_below(nullptr);
    of_thread_ = nullptr;
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static bool is_there() { return of_thread_ != nullptr; }
  static void before_operation(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                               torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard once(kWatchedKey);
    of_thread_->run(operation, keys, stack);
  }

  void finish() {
    const c10::impl::ExcludeDispatchKeyGuard once(kWatchedKey);
    for (auto& [storage, weight] : std::exchange(weights_, {})) hide(weight);
  }

 private:
  // A parameter while the model is built. Its memory is all zeros, unless the program writes past LibTorch.
  struct Weight {
    at::Tensor parameter;
    c10::Storage storage;  // so that its address stays its own
    std::shared_ptr<DeferredWeight> deferred;

    void* data() const { return storage.unsafeGetStorageImpl()->data_ptr().get(); }
    bool is_empty() const { return is_zero(data(), storage.nbytes()); }
    void empty() const { zero_and_give_back(data(), storage.nbytes()); }
    void make() const {
      const at::Tensor made = deferred->make();
      std::memcpy(data(), made.data_ptr(), made.nbytes());
    }
  };

  static void call(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    operation.redispatchBoxed(keys, stack);
  }

  void run(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = operation.schema();
    const Operands operands = torch::jit::last(*stack, schema.arguments().size());
    Weight* const target = can_be_noted(schema, operands) ? target_of(schema, operands[0].toTensor()) : nullptr;
    if (!reads_sizes_alone(schema)) make_what_is_used(schema, operands, target);
    if (target == nullptr) return call(operation, keys, stack);
    DeferredWrite write = write_of(operation, operands);
    const bool draws = write.generator_place.has_value();
    target->deferred->add(std::move(write));
    if (draws) {  // so that the generator advances
      call(operation, keys, stack);
      target->empty();
      return;
    }
    const c10::IValue written = operands[0];
    torch::jit::drop(*stack, schema.arguments().size());
    stack->push_back(written);
  }

  // The deferred weight of this memory, perhaps from now on. Null if its elements are there, and count.
  Weight* target_of(const c10::FunctionSchema& schema, const at::Tensor& target) {
    const auto found = weights_.find(storage_behind(target));
    if (found == weights_.end()) {
      if (!overwrites(schema) || !can_be_deferred(target)) return nullptr;
      Weight weight{target, target.storage(), std::make_shared<DeferredWeight>(target)};
      weight.empty();
      return &weights_.emplace(storage_behind(target), std::move(weight)).first->second;
    }
    Weight& weight = found->second;
    if (overwrites(schema) && weight.deferred->has_layout_of(target)) {
      weight.deferred->forget();
      weight.empty();
      return &weight;
    }
    if (weight.is_empty()) return &weight;
    weights_.erase(found);  // the program has written by data_ptr
    return nullptr;
  }

  // Weights that the operation reads, or writes in another way, and those that are to read what it writes.
  void make_what_is_used(const c10::FunctionSchema& schema, Operands operands, const Weight* target) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (const at::Tensor& tensor : tensors_in(operands[i])) {
        const auto used = weights_.find(storage_behind(tensor));
        if (used != weights_.end() && &used->second != target) {
          if (used->second.is_empty()) used->second.make();
          weights_.erase(used);
        }
        if (is_written(schema.arguments()[i])) make_readers_of(storage_behind(tensor));
      }
    }
  }
  void make_readers_of(const c10::StorageImpl* written) {
    for (auto each = weights_.begin(); written != nullptr && each != weights_.end();) {
      const auto next = std::next(each);
      if (each->second.deferred->reads(written)) {
        each->second.make();
        weights_.erase(each);
      }
      each = next;
    }
  }

  // If others have its memory, or the program has written past LibTorch, it stays in memory.
  static void hide(const Weight& weight) {
    const bool is_its_own = storage_behind(weight.parameter) == weight.storage.unsafeGetStorageImpl();
    if ((!is_its_own && weight.storage.use_count() == 1) || !weight.is_empty()) return;
    if (is_its_own && weight.storage.use_count() == 2 && weight.deferred->has_layout_of(weight.parameter)) {
      DeferredParameters::all().add(weight.parameter, weight.deferred);
    } else {
      weight.make();
    }
  }

  static thread_local Recorder* of_thread_;

  c10::impl::IncludeDispatchKeyGuard include_;
  std::map<const c10::StorageImpl*, Weight> weights_;
};

thread_local Deferring::Recorder* Deferring::Recorder::of_thread_ = nullptr;

Deferring::Deferring() {
  watch_operations();
  if (Recorder::is_there()) {
    throw Error("deferred() cannot be called within deferred()", "deferred", "call it once, around the whole model");
  }
  DeferredParameters::all().forget_unused();
  recorder_ = std::make_unique<Recorder>();
}

Deferring::~Deferring() = default;

void Deferring::finish() { recorder_->finish(); }

}  // namespace lockstep::detail
