#include "lockstep/launch/process/event_loop.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/kernel_call.h"

namespace lockstep {

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw_failed_call("cannot wait for events", "epoll_create1", errno, "the launcher", "raise ulimit -n");
}

EventLoop::Token EventLoop::watch(int fd, std::uint32_t events, std::function<void()> ready) {
  const Token token = next_token_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw Error("cannot watch a descriptor: " + errno_text(errno), "the launcher",
                "raise the limits of the system: ulimit -n, fs.epoll.max_user_watches");
  }
  watches_.emplace(token, std::make_shared<Watch>(Watch{fd, std::move(ready)}));
  return token;
}

EventLoop::Token EventLoop::watch_readable(int fd, std::function<void()> ready) {
  return watch(fd, EPOLLIN, std::move(ready));
}

EventLoop::Token EventLoop::watch_writable(int fd, std::function<void()> ready) {
  return watch(fd, EPOLLOUT, std::move(ready));
}

void EventLoop::forget(Token token) {
  const auto found = watches_.find(token);
  if (found == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->fd, nullptr);
  watches_.erase(found);
}

void EventLoop::wait(Deadline deadline) {
  std::array<epoll_event, 64> events{};
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), deadline.poll_timeout_ms());
  } while (count < 0 && errno == EINTR);
  for (int i = 0; i < count; ++i) {
    // Looked up by token: a function called before may have removed this watch, and its number may belong to another
    // file now.
    const auto found = watches_.find(events[static_cast<std::size_t>(i)].data.u64);
    if (found == watches_.end()) continue;
    const std::shared_ptr<Watch> kept = found->second;
    kept->ready();
  }
}

}  // namespace lockstep
