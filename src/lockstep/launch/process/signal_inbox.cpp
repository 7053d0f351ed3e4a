#include "lockstep/launch/process/signal_inbox.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/base/kernel_call.h"
#include "lockstep/base/signals.h"

namespace lockstep {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalInbox::SignalInbox() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : kEnding) {
    if (!is_ignored(number)) ::sigaddset(&wanted, number);
  }
  for (const int number : kWarningSignals) {
    if (!is_ignored(number)) ::sigaddset(&wanted, number);
  }
  ::sigaddset(&wanted, SIGCHLD);
  sigset_t blocked = wanted;
  ::sigaddset(&blocked, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) {
    const int code = errno;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw_failed_call("cannot wait for signals", "signalfd4", code, "the launcher", "raise ulimit -n");
  }
}

SignalInbox::~SignalInbox() {
  // A write to a vanished console left a SIGPIPE pending; if it were unblocked, it would end the launcher, which would
  // then not return its exit code.
  sigset_t pipe;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  const timespec no_wait{};
  while (::sigtimedwait(&pipe, nullptr, &no_wait) == SIGPIPE) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalInbox::take() {
  signalfd_siginfo info{};
  ssize_t got = 0;
  do {
    got = ::read(fd_.get(), &info, sizeof(info));
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

bool SignalInbox::asks_to_end(int number) {
  return std::find(std::begin(kEnding), std::end(kEnding), number) != std::end(kEnding);
}

SignalsLetThrough::SignalsLetThrough() {
  sigset_t through;
  ::sigemptyset(&through);
  for (const int number : kEnding) ::sigaddset(&through, number);
  ::pthread_sigmask(SIG_UNBLOCK, &through, &before_);
}

SignalsLetThrough::~SignalsLetThrough() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace lockstep
