#include "lockstep/base/signals.h"

#include <string.h>

namespace lockstep {

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

}  // namespace lockstep
