#pragma once

#include <signal.h>
#include <time.h>

namespace lockstep {

/// Prevents SIGPIPE from killing the process when this thread writes to an ended connection in this scope: Gloo writes
/// without MSG_NOSIGNAL, and the program's signal handlers must stay as they are.
class SignalGuard {
 public:
  SignalGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SignalGuard() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    if (failed_) {  // a signal may be pending, and would be delivered when it is unblocked
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

/// Blocks all signals in this scope. A thread that a library starts here inherits that: signals are for the program's
/// own threads, and a write to an ended connection must fail instead of ending the process by SIGPIPE.
class BlockAllSignals {
 public:
  BlockAllSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockAllSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockAllSignals(const BlockAllSignals&) = delete;
  BlockAllSignals& operator=(const BlockAllSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace lockstep
