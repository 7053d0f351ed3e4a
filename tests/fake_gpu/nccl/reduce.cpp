#include "tests/fake_gpu/nccl/reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>

namespace fake_gpu {
namespace {

// The type in which values of T are added.
template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<c10::Half> {
  using type = float;
};
template <>
struct Wide<c10::BFloat16> {
  using type = float;
};

template <typename T>
void combine_as(T* into, const T* from, std::size_t count, ncclRedOp_t op) {
  using W = typename Wide<T>::type;
  for (std::size_t i = 0; i < count; ++i) {
    const W a = static_cast<W>(into[i]), b = static_cast<W>(from[i]);
    switch (op) {
      case ncclProd:
        into[i] = static_cast<T>(a * b);
        break;
      case ncclMax:
        into[i] = static_cast<T>(std::max(a, b));
        break;
      case ncclMin:
        into[i] = static_cast<T>(std::min(a, b));
        break;
      default:
        into[i] = static_cast<T>(a + b);
    }
  }
}

template <typename T>
void divide_as(T* values, std::size_t count, int by) {
  using W = typename Wide<T>::type;
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<W>(values[i]) / static_cast<W>(by));
}

// Calls `body` with a null pointer of the type.
template <typename Body>
void for_type(ncclDataType_t type, const Body& body) {
  switch (type) {
    case ncclInt8:
      return body(static_cast<std::int8_t*>(nullptr));
    case ncclUint8:
      return body(static_cast<std::uint8_t*>(nullptr));
    case ncclInt32:
      return body(static_cast<std::int32_t*>(nullptr));
    case ncclUint32:
      return body(static_cast<std::uint32_t*>(nullptr));
    case ncclInt64:
      return body(static_cast<std::int64_t*>(nullptr));
    case ncclUint64:
      return body(static_cast<std::uint64_t*>(nullptr));
    case ncclFloat16:
      return body(static_cast<c10::Half*>(nullptr));
    case ncclBfloat16:
      return body(static_cast<c10::BFloat16*>(nullptr));
    case ncclFloat32:
      return body(static_cast<float*>(nullptr));
    case ncclFloat64:
      return body(static_cast<double*>(nullptr));
    default:
      return;
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  std::size_t bytes = 0;
  for_type(type, [&](auto* none) { bytes = sizeof *none; });
  return bytes;
}

void combine(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  for_type(type, [&](auto* none) {
    using T = decltype(none);
    combine_as(static_cast<T>(into), static_cast<const std::remove_pointer_t<T>*>(from), count, op);
  });
}

void divide(void* values, std::size_t count, ncclDataType_t type, int by) {
  for_type(type, [&](auto* none) { divide_as(static_cast<decltype(none)>(values), count, by); });
}

}  // namespace fake_gpu
