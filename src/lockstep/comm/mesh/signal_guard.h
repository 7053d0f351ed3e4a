#pragma once

#include <signal.h>
#include <time.h>

namespace lockstep {

/// Keeps a write to a connection that has ended from killing the process by SIGPIPE, in this thread and scope: Gloo
/// writes without MSG_NOSIGNAL, and the program's handlers are not ours to change.
class SignalGuard {
 public:
  SignalGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SignalGuard() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    if (failed_) {  // one may be pending now, and would strike when it is let through
      const timespec no_wait{0, 0};
      sigtimedwait(&pipe_, nullptr, &no_wait);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  void failed() { failed_ = true; }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool failed_ = false;
};

}  // namespace lockstep
