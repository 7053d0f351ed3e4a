#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Waits for several descriptors at once, and calls a function for each that is ready, in the order in which they
/// became ready. For one thread.
class EventLoop {
 public:
  using Token = std::uint64_t;

  /// @throws Error  if the kernel refuses another descriptor
  EventLoop();
  /// Calls `ready` whenever `fd` can be read (or its other end is gone), until `forget`.
  Token watch_readable(int fd, std::function<void()> ready);
  /// Calls `ready` whenever `fd` can be written, until `forget`.
  Token watch_writable(int fd, std::function<void()> ready);
  /// Call it before the descriptor is closed. Unknown tokens are ignored.
  void forget(Token token);
  /// Returns after one or more functions were called, or at the deadline.
  void wait(Deadline deadline);

 private:
  struct Watch {
    int fd;
    std::function<void()> ready;
  };
  Token watch(int fd, std::uint32_t events, std::function<void()> ready);

  UniqueFd epoll_;
  Token next_token_ = 1;
  std::map<Token, std::shared_ptr<Watch>> watches_;
};

}  // namespace lockstep
