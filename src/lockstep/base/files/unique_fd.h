#pragma once

#include <unistd.h>

#include <utility>

namespace lockstep {

/// Owns one file descriptor; -1 owns nothing.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Releases ownership of the descriptor: the caller closes it.
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept { *this = UniqueFd(); }

 private:
  int fd_;
};

}  // namespace lockstep
