#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Reports which of many descriptors can be read or written now: epoll(7), level-triggered.
class SocketPoller {
 public:
  struct Event {
    std::uint64_t id = 0;
    bool readable = false;  ///< or broken, or at its end
    bool writable = false;
  };

  /// @throws Error  if the process has no descriptor left
  SocketPoller();

  /// Watches `fd` for reading, under `id`. @return  false if the kernel refuses it
  bool add(int fd, std::uint64_t id);
  void set_interest(int fd, std::uint64_t id, bool read, bool write);
  /// Watches `fd` no more.
  void remove(int fd, std::uint64_t id);
  /// Can be polled for reading: then `wait` returns at once.
  int fd() const { return epoll_.get(); }
  /// Call it when the descriptor of `id` is closed.
  void forget(std::uint64_t id) { interest_.erase(id); }
  /// Waits for an event; returns nothing if the time ends or a signal arrives.
  std::vector<Event> wait(std::chrono::milliseconds time);

 private:
  UniqueFd epoll_;
  std::unordered_map<std::uint64_t, std::uint32_t> interest_;  // saves a system call if the interest stays as it is
};

}  // namespace lockstep
