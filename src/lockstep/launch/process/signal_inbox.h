#pragma once

#include <signal.h>

#include <optional>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Turns the signals that end a program (SIGINT, SIGTERM, SIGHUP, SIGQUIT), those by which batch systems warn a job
/// (base/signals.h), and SIGCHLD, into data to read. While it lives they are blocked in this thread and in threads
/// started later. SIGPIPE is blocked too, so that writes fail instead. A signal that was ignored before, as nohup does
/// with SIGHUP, stays ignored.
class SignalInbox {
 public:
  /// @throws Error  if the kernel refuses the descriptor
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int fd() const { return fd_.get(); }  ///< readable when a signal has arrived
  /// The number of the next signal; nothing if none has arrived.
  std::optional<int> take();
  /// Whether the signal, one that `take` returned, asks the launcher to end.
  static bool asks_to_end(int number);

 private:
  sigset_t before_{};
  UniqueFd fd_;
};

/// While it lives, the signals that end a program end this one, as they would without an inbox. For waits during which
/// nothing needs to be cleaned up. Warnings are kept for the ranks that start after the wait.
class SignalsLetThrough {
 public:
  SignalsLetThrough();
  ~SignalsLetThrough();
  SignalsLetThrough(const SignalsLetThrough&) = delete;
  SignalsLetThrough& operator=(const SignalsLetThrough&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace lockstep
