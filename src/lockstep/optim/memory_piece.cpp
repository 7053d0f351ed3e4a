#include "lockstep/optim/memory_piece.h"

#include <ATen/ops/from_blob.h>

#include <cstddef>

namespace lockstep {
namespace {

void* element_of(const at::Tensor& memory, std::int64_t offset) {
  return static_cast<std::byte*>(memory.data_ptr()) + static_cast<std::size_t>(offset) * memory.element_size();
}

}  // namespace

at::Tensor memory_piece(const at::Tensor& memory, std::int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::from_blob(
      element_of(memory, offset), sizes, strides, [memory](void*) {}, memory.options());
}

at::Tensor memory_piece(const at::Tensor& memory, std::int64_t offset, at::IntArrayRef sizes) {
  return at::from_blob(
      element_of(memory, offset), sizes, [memory](void*) {}, memory.options());
}

}  // namespace lockstep
