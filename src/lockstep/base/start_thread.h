#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep {

/// What to do where the kernel, with the error `code`, gives no process or thread.
std::string advice_without_process(int code);

/// @throws Error  that a thread for `purpose` was refused, why, and what to do
[[noreturn]] void refuse_thread(const std::string& purpose, const std::system_error& error);

/// A thread that runs `body`. Where the kernel gives none (ulimit -u, a sandbox), the standard library says "Resource
/// temporarily unavailable" alone.
/// @param purpose  "serves the store", for the error
template <class Body>
std::thread start_thread(const std::string& purpose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    refuse_thread(purpose, error);
  }
}

}  // namespace lockstep
