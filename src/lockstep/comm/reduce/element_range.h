#pragma once

#include <cstddef>

#include "lockstep/comm/reduce/reduce.h"

namespace lockstep::shm {

/// One rank's elements for an operation.
struct Elements {
  std::byte* data = nullptr;
  std::size_t count = 0;
  Element type = Element::F32;

  std::size_t bytes() const { return count * element_bytes(type); }
};

}  // namespace lockstep::shm
