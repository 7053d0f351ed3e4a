#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <utility>

#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/tensor/dispatch_keys.h"

namespace c10 {
class OperatorHandle;
}

namespace lockstep {

/// A tensor with the sizes of `like` over this storage.
inline at::Tensor tensor_over(const c10::Storage& storage, std::int64_t offset, const at::Tensor& like,
                              c10::DispatchKeySet keys) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), keys, like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  impl->set_storage_offset(offset);
  return at::Tensor(std::move(impl));
}

/// From now on, LibTorch calls the fallback for watched tensors. Once is enough.
void watch_operations();

/// Calls an operation with the keys below kWatchedKey, or does something in its place.
using CallBelow = void (*)(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// Lets the fallback make its calls by `call` in this thread; null: plainly again.
void set_call_below(CallBelow call);

/// The watcher of this watched tensor, and the parameter that it knows; null if nobody has to be told.
/// @throws Error  if it has no memory and nobody knows it
std::pair<ReadWatcher*, std::size_t> watcher_of(const at::Tensor& tensor);

/// Lets what an operation returns be watched if it is a view of watched memory, and not be watched any more if it has
/// got other memory, as by `set_` (torch::load).
void watch_by_memory(const at::Tensor& tensor);

}  // namespace lockstep
