#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep::testing {

/// Long enough for any wait that succeeds, on a loaded machine.
inline Deadline patience() { return Deadline::after(std::chrono::seconds(60)); }

inline const std::string kSecret = "5ec2e7000000000000000000000000e1";

/// Waits until `condition` holds. @return  false if it does not within the time
inline bool eventually(const std::function<bool()>& condition) {
  for (const Deadline limit = patience(); !limit.passed();) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

/// The text of the Error that `call` throws; if it throws none, the test fails and the text is empty.
template <typename ErrorType = Error>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

/// A TCP port of the loopback address that stays free for a server with SO_REUSEADDR while this object lives: bound,
/// but not listening, so the kernel gives it to no other program.
class ReservedPort {
 public:
  explicit ReservedPort(std::uint16_t wanted = 0) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(wanted);
    socklen_t size = sizeof(address);
    bound_ = ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  bool bound() const { return bound_; }
  std::uint16_t port() const { return port_; }
  std::string text() const { return std::to_string(port_); }
  /// Occupies the port: the kernel accepts connections, and no process serves them.
  void listen() const { ::listen(fd_.get(), 16); }

 private:
  UniqueFd fd_;
  bool bound_ = false;
  std::uint16_t port_ = 0;
};

inline bool has_ipv6() {
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

/// Sets an environment variable while it lives.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (before_) {
      ::setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace lockstep::testing
