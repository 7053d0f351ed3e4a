#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep {

/// Advice for a process or thread that the kernel refused with the error `code`.
std::string advice_without_process(int code);

/// @throws Error  with the thread's `purpose`, why the kernel refused it, and what to do
[[noreturn]] void refuse_thread(const std::string& purpose, const std::system_error& error);

/// A thread that runs `body`. If the kernel refuses it (ulimit -u, a sandbox), the error says more than the standard
/// library's "Resource temporarily unavailable".
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
