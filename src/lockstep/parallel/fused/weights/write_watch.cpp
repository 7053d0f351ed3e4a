#include "lockstep/parallel/fused/weights/write_watch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lockstep/parallel/fused/weights/watched_key.h"

namespace lockstep {
namespace {

struct WatchedStorage {
  WriteWatcher* watcher;
  std::size_t index;
  at::Tensor parameter;
};

struct WatchedStorages {
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, WatchedStorage> entries;
};

// Never destroyed: a static model may end after everything else.
WatchedStorages& watched_storages() {
  static auto& all = *new WatchedStorages;
  return all;
}

const c10::StorageImpl* storage_impl_of(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.has_storage() ? impl.unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

// The same elements of `storage`, with or without the key.
void move_to(const at::Tensor& tensor, const c10::Storage& storage, c10::DispatchKeySet keys) {
  const std::int64_t offset = tensor.unsafeGetTensorImpl()->storage_offset();
  tensor.unsafeGetTensorImpl()->shallow_copy_from(tensor_over(storage, offset, tensor, keys).getIntrusivePtr());
}

void before_write_to(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kWriteKey)) return;
  std::optional<WatchedStorage> found;
  {
    WatchedStorages& all = watched_storages();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto entry = all.entries.find(storage_impl_of(tensor));
    if (entry != all.entries.end()) found = entry->second;
  }
  if (!found) return;
  const at::Tensor& parameter = found->parameter;
  if (storage_impl_of(parameter) == storage_impl_of(tensor)) found->watcher->before_write(found->index);
  // Another tensor than the parameter is a view of its former memory.
  if (storage_impl_of(parameter) == nullptr || storage_impl_of(parameter) == storage_impl_of(tensor)) return;
  move_to(tensor, parameter.unsafeGetTensorImpl()->unsafe_storage(), tensor.key_set().remove(kWriteKey));
}

void before_writing_operation(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                              torch::jit::Stack* stack) {
  const auto& arguments = operation.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].alias_info() == nullptr || !arguments[i].alias_info()->isWrite()) continue;
    const c10::IValue& value = (*stack)[stack->size() - arguments.size() + i];
    if (value.isTensor()) {
      before_write_to(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) before_write_to(tensor);
    }
  }
  operation.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kWriteKey), stack);
}

// They change what the tensor refers to, and write no element of what others have.
bool writes_no_element(const std::string& name) {
  static const std::unordered_set<std::string> names{"aten::set_",       "aten::set_data",     "aten::requires_grad_",
                                                     "aten::detach_",    "aten::retain_grad",  "aten::rename_",
                                                     "aten::_fw_primal", "aten::record_stream"};
  return names.count(name) != 0;
}

bool writes_to_an_argument(const c10::OperatorHandle& operation) {
  if (writes_no_element(operation.operator_name().name)) return false;
  for (const c10::Argument& argument : operation.schema().arguments()) {
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return true;
  }
  return false;
}

void watch_writing_operations() {
  static std::once_flag once;
  std::call_once(once, [] {
    const MakeFunction make = [] { return torch::CppFunction::makeFromBoxedFunction<&before_writing_operation>(); };
    call_before_operations(kWriteKey, make, &writes_to_an_argument);
  });
}

}  // namespace

void WatchedWrites::watch(const at::Tensor& parameter, std::size_t index) {
  watch_writing_operations();
  if (index >= storages_.size()) storages_.resize(index + 1);
  const c10::Storage storage = parameter.unsafeGetTensorImpl()->unsafe_storage();
  {
    WatchedStorages& all = watched_storages();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (storages_[index]) all.entries.erase(storages_[index].unsafeGetStorageImpl());
    all.entries[storage.unsafeGetStorageImpl()] = {&watcher_, index, parameter};
  }
  storages_[index] = storage;
  move_to(parameter, storage, parameter.key_set().add(kWriteKey));
}

void WatchedWrites::clear() {
  WatchedStorages& all = watched_storages();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const c10::Storage& storage : storages_) {
    if (storage) all.entries.erase(storage.unsafeGetStorageImpl());
  }
  storages_.clear();
}

}  // namespace lockstep
