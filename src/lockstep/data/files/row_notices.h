#pragma once

#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace lockstep {

/// Warns of rows that are left out or joined. All ranks of a job read the same files, so rank 0 alone says it.
template <typename... Args>
void warn_of_rows(fmt::format_string<Args...> format, Args&&... args) {
  if (env_int("RANK").value_or(0) == 0) log_warning(format, std::forward<Args>(args)...);
}

}  // namespace lockstep
