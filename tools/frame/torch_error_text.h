#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace lockstep {

/// The text of an error, without the C++ stack that LibTorch appends to its messages.
inline std::string torch_error_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

}  // namespace lockstep
