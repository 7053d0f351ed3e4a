#include "lockstep/net/sockets/socket_poller.h"

#include <array>
#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/kernel_call.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {

SocketPoller::SocketPoller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) {
    throw_failed_call("cannot wait for connections", "epoll_create1", errno, host_name(),
                      "raise the limit of open files (ulimit -n)");
  }
}

bool SocketPoller::add(int fd, std::uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return false;
  interest_[id] = EPOLLIN;
  return true;
}

void SocketPoller::set_interest(int fd, std::uint64_t id, bool read, bool write) {
  epoll_event event{};
  event.events =
      (read ? static_cast<std::uint32_t>(EPOLLIN) : 0U) | (write ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  event.data.u64 = id;
  std::uint32_t& current = interest_[id];
  if (current == event.events) return;
  current = event.events;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void SocketPoller::remove(int fd, std::uint64_t id) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  forget(id);
}

std::vector<SocketPoller::Event> SocketPoller::wait(std::chrono::milliseconds time) {
  std::array<epoll_event, 128> happened;
  const int count =
      ::epoll_wait(epoll_.get(), happened.data(), static_cast<int>(happened.size()), static_cast<int>(time.count()));
  std::vector<Event> events;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = happened[static_cast<std::size_t>(i)];
    events.push_back(
        {event.data.u64, (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0, (event.events & EPOLLOUT) != 0});
  }
  return events;
}

}  // namespace lockstep
