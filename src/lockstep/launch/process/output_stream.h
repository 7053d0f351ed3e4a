#pragma once

#include <optional>
#include <string>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/launch/process/console.h"
#include "lockstep/launch/process/event_loop.h"
#include "lockstep/launch/process/line_prefix.h"
#include "lockstep/launch/process/text_tail.h"

namespace lockstep {

/// Carries the output of a rank's standard stream from a pipe to its targets, and remembers the end of it.
class OutputStream {
 public:
  struct Targets {
    Console* console = nullptr;         ///< null: not shown
    std::optional<std::string> prefix;  ///< before each line on the console
    UniqueFd file;                      ///< log file; may be empty
    std::string name;                   ///< of the stream and the log file, for messages: "stdout of rank 0, /logs/x"
  };

  /// @throws Error  if no pipe can be created
  OutputStream(EventLoop& loop, Targets targets);
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  /// The pipe's end for the rank; close it here once the rank has it.
  int write_end() const { return write_end_.get(); }
  void close_write_end() { write_end_.reset(); }
  /// Continues to read, after the console was full.
  void resume();
  /// Reads what is there now, and no more: processes that the rank left behind may hold the pipe open.
  void drain();
  /// Like `drain`, for the last time.
  void finish();
  const TextTail& tail() const { return tail_; }

 private:
  enum class Got { Some, Nothing, End };
  void read_some();
  Got take_piece();
  void pass_on(std::string_view piece);
  void watch();

  EventLoop& loop_;
  Targets targets_;
  UniqueFd read_end_;
  UniqueFd write_end_;
  EventLoop::Token watch_ = 0;
  std::optional<LinePrefix> prefix_;
  TextTail tail_;
};

}  // namespace lockstep
