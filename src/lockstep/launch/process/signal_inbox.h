#pragma once

#include <signal.h>

#include <optional>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Turns the signals that end a program (SIGINT, SIGTERM, SIGHUP, SIGQUIT), and SIGCHLD, into data to be read. While it
/// lives they are blocked in this thread and in threads started later; SIGPIPE is too, so that writes fail instead.
/// A signal that was ignored before, as nohup does with SIGHUP, stays ignored.
class SignalInbox {
 public:
  /// @throws Error  if the kernel refuses the descriptor
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int fd() const { return fd_.get(); }  ///< readable when a signal has come
  /// The number of the next signal; nothing where none has come.
  std::optional<int> take();

 private:
  sigset_t before_{};
  UniqueFd fd_;
};

/// Lets those of the signals that end a program end it, as they would without an inbox, while it lives: for waits
/// during which there is nothing to clean up.
class SignalsLetThrough {
 public:
  SignalsLetThrough();
  ~SignalsLetThrough();
  SignalsLetThrough(const SignalsLetThrough&) = delete;
  SignalsLetThrough& operator=(const SignalsLetThrough&) = delete;

 private:
  sigset_t before_{};
};

/// "SIGKILL", or "signal 42" where it has no name.
std::string signal_name(int number);

}  // namespace lockstep
