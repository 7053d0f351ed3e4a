#pragma once

#include <c10/core/ScalarType.h>

namespace lockstep {

/// Whether engines compute with this type. Other values are moved as bytes, without arithmetic.
inline bool is_computed_with(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
    case c10::ScalarType::Byte:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep
