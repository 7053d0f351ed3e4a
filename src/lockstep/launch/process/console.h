#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lockstep/launch/process/event_loop.h"

namespace lockstep {

/// This process's stdout or stderr, written without ever blocking: a paused terminal, or a pipe without a reader, must
/// not keep the launcher from watching its ranks.
class Console {
 public:
  /// @param fd  stays open, and is not set to non-blocking, because other processes share it
  Console(EventLoop& loop, int fd) : loop_(loop), fd_(fd) {}
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void write(std::string_view text);
  /// True while so much is queued that no more should be read; `on_room` is called when that ends.
  bool is_full() const;
  void set_on_room(std::function<void()> on_room) { on_room_ = std::move(on_room); }
  /// Writes the queued text, until the deadline.
  void flush(Deadline deadline);

 private:
  void write_what_fits();

  EventLoop& loop_;
  int fd_;
  std::string waiting_;
  EventLoop::Token watch_ = 0;
  bool broken_ = false;
  std::function<void()> on_room_;
};

}  // namespace lockstep
