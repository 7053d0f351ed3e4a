#pragma once

#include <functional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

/// The text of the UsageError that `action` throws.
inline std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

}  // namespace lockstep
