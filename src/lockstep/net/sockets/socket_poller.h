#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Which of many descriptors can be read or written now: epoll(7), level-triggered.
class SocketPoller {
 public:
  struct Event {
    std::uint64_t id = 0;
    bool readable = false;  ///< or broken, or at its end
    bool writable = false;
  };

  /// @throws Error  if no descriptor is left for it
  SocketPoller();

  /// Watches `fd` for reading, under `id`. @return  false where the kernel refuses it
  bool add(int fd, std::uint64_t id);
  void set_interest(int fd, std::uint64_t id, bool read, bool write);
  /// To be called when the descriptor of `id` is closed.
  void forget(std::uint64_t id) { interest_.erase(id); }
  /// Waits until something happens; nothing where the time ends, or a signal comes.
  std::vector<Event> wait(std::chrono::milliseconds time);

 private:
  UniqueFd epoll_;
  std::unordered_map<std::uint64_t, std::uint32_t> interest_;  // spares a system call where it does not change
};

}  // namespace lockstep
