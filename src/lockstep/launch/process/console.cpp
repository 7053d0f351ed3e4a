#include "lockstep/launch/process/console.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kMostWaitingBytes = 1 << 20;

// If this returns true, PIPE_BUF bytes can be written to a pipe without blocking (pipe(7)).
bool takes_more(int fd, int timeout_ms) {
  pollfd wanted{fd, POLLOUT, 0};
  return ::poll(&wanted, 1, timeout_ms) > 0;
}

}  // namespace

Console::~Console() { loop_.forget(watch_); }

bool Console::is_full() const { return waiting_.size() >= kMostWaitingBytes; }

void Console::write(std::string_view text) {
  if (broken_) return;
  waiting_ += text;
  if (watch_ == 0) write_what_fits();
}

void Console::write_what_fits() {
  const bool was_full = is_full();
  std::size_t done = 0;
  bool blocked = false;
  while (done < waiting_.size() && !broken_ && !blocked) {
    if (!takes_more(fd_, 0)) {
      blocked = true;
      break;
    }
    const ssize_t written =
        ::write(fd_, waiting_.data() + done, std::min<std::size_t>(waiting_.size() - done, PIPE_BUF));
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      blocked = true;
    } else if (errno != EINTR) {
      broken_ = true;  // the reader is gone: the job continues without it
    }
  }
  waiting_.erase(0, broken_ ? waiting_.size() : done);
  if (!waiting_.empty() && watch_ == 0) {
    watch_ = loop_.watch_writable(fd_, [this] { write_what_fits(); });
  } else if (waiting_.empty() && watch_ != 0) {
    loop_.forget(std::exchange(watch_, 0));
  }
  if (was_full && !is_full() && on_room_) on_room_();
}

void Console::flush(Deadline deadline) {
  while (!waiting_.empty() && !deadline.passed()) {
    if (takes_more(fd_, deadline.poll_timeout_ms())) write_what_fits();
  }
}

}  // namespace lockstep
