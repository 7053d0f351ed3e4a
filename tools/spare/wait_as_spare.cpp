// liblockstep_spare.so: preloaded into a program, it stops the program before its main function, when the dynamic
// linker has loaded and relocated all its libraries, until the launcher says which rank it is to be. See
// lockstep/launch/ranks/spare_message.h. A program that only becomes another one waits there instead. Uses the C
// library alone.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/signals.h"
#include "lockstep/launch/ranks/spare_message.h"

namespace {

constexpr int kMostDescriptors = 2;

union Control {
  char bytes[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  cmsghdr aligned;
};

bool receive_all(int socket, char* to, size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(socket, to, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}

bool receive_start(int socket, lockstep::SpareStart& start) {
  Control control{};
  iovec part{&start, sizeof(start)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(start))) return false;
  int descriptors[kMostDescriptors] = {-1, -1};
  const cmsghdr* attached = CMSG_FIRSTHDR(&message);
  if (attached != nullptr && attached->cmsg_type == SCM_RIGHTS) {
    ::memcpy(descriptors, CMSG_DATA(attached), attached->cmsg_len - CMSG_LEN(0));
  }
  const int* next = descriptors;
  const int targets[] = {start.has_out != 0 ? STDOUT_FILENO : -1, start.has_err != 0 ? STDERR_FILENO : -1};
  for (const int target : targets) {
    if (target < 0) continue;
    if (::dup2(*next, target) < 0) return false;
    ::close(*next++);
  }
  return true;
}

// The texts become the whole environment. They stay where they are for the life of the process.
bool receive_environment(int socket, size_t bytes) {
  char* const block = static_cast<char*>(::malloc(bytes + 1));
  if (block == nullptr || !receive_all(socket, block, bytes)) return false;
  block[bytes] = '\0';
  size_t count = 0;
  for (size_t i = 0; i < bytes; ++i) count += block[i] == '\0' ? 1 : 0;
  char** const entries = static_cast<char**>(::calloc(count + 1, sizeof(char*)));
  if (entries == nullptr) return false;
  char* text = block;
  for (size_t i = 0; i < count; ++i) {
    entries[i] = text;
    text += ::strlen(text) + 1;
  }
  environ = entries;
  return true;
}

// A batch system that warns a job may signal all its processes: one that waits has nothing to save.
class DeafToWarnings {
 public:
  DeafToWarnings() { ::sigprocmask(SIG_BLOCK, &warnings_, &before_); }
  ~DeafToWarnings() {
    const timespec no_wait{};
    while (::sigtimedwait(&warnings_, nullptr, &no_wait) > 0) {
    }
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  DeafToWarnings(const DeafToWarnings&) = delete;
  DeafToWarnings& operator=(const DeafToWarnings&) = delete;

 private:
  const sigset_t warnings_ = lockstep::warning_signal_set();
  sigset_t before_{};
};

void wait_as_spare() {
  const char* const number = ::getenv(lockstep::kSpareVariable);
  if (number == nullptr) return;
  const DeafToWarnings deaf;
  const int socket = ::atoi(number);
  const char loaded = 1;
  // A launcher that needed this process before it was loaded has sent the start, and closed its end.
  ::send(socket, &loaded, 1, MSG_NOSIGNAL);
  lockstep::SpareStart start;
  const bool told = receive_start(socket, start) && receive_environment(socket, start.environment_bytes);
  if (!told) ::_exit(0);  // the job has ended
  ::close(socket);
}

}  // namespace

// Exported by a program that chooses its time itself, as `lockstep` does, which becomes another program.
extern "C" __attribute__((weak)) const char lockstep_waits_when_ready;

/// For such a program. Does nothing if no launcher waits for a spare.
extern "C" __attribute__((visibility("default"))) void lockstep_wait_as_spare() { wait_as_spare(); }

namespace {

// The last of the libraries' initialisers: none of the others depends on this one.
__attribute__((constructor)) void wait_unless_later() {
  if (&lockstep_waits_when_ready == nullptr) wait_as_spare();
}

}  // namespace
