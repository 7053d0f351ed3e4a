#include "lockstep/comm/symmetric_memory.h"

namespace lockstep {

void SymmetricMemory::access(const std::function<void()>& body) const {
  parts_.enter();
  try {
    body();
  } catch (...) {
    parts_.leave();
    throw;
  }
  parts_.leave();
}

}  // namespace lockstep
