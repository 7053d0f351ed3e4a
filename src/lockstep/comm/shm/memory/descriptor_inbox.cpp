#include "lockstep/comm/shm/memory/descriptor_inbox.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/net/hmac.h"
#include "lockstep/net/sockets/runtime_folder.h"
#include "lockstep/net/sockets/stale_sockets.h"
#include "lockstep/net/sockets/unix_address.h"

namespace lockstep::shm {
namespace {

constexpr std::size_t kMostSenders = 1024;  // connected at once; other processes of this user could connect more
constexpr std::chrono::milliseconds kRetry(1);

std::uint64_t random_name() {
  std::uint64_t name = 0;
  const std::string bytes = random_bytes(sizeof(name));
  std::memcpy(&name, bytes.data(), sizeof(name));
  return name;
}

std::string inbox_prefix() { return "inbox-" + kernel_mark() + "-"; }

void remove_stale_inboxes(const std::string& path, const SocketFolderLock& lock) noexcept {
  if (!lock.is_held()) return;
  try {
    const std::string prefix = inbox_prefix();
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
      const std::string other = entry.path().string();
      if (other == path || entry.path().filename().string().compare(0, prefix.size(), prefix) != 0) continue;
      if (is_stale_socket(other)) ::unlink(other.c_str());
    }
  } catch (const std::exception& error) {
    log_debug("cannot remove old sockets beside {}: {}", path, error.what());
  }
}

bool is_of_this_user(int connection) {
  ucred other{};
  socklen_t length = sizeof(other);
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == ::geteuid();
}

[[noreturn]] void throw_inbox_error(const std::string& what, int code) {
  throw Error(what + ": " + errno_text(code), "shared memory",
              code == EMFILE || code == ENFILE ? "raise the limit of open files (ulimit -n)"
                                               : "read the other ranks' messages, or use engine gloo");
}

union DescriptorRoom {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

// Reads a label and the descriptor with it. Returns whether the connection is no longer needed.
bool read_letter(int connection, Label& label, UniqueFd& fd) {
  DescriptorRoom room{};
  iovec text{&label, sizeof(label)};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof(room.bytes);
  const ssize_t got = ::recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno != EAGAIN && errno != EINTR;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS || part->cmsg_len != CMSG_LEN(sizeof(int))) {
      continue;
    }
    int received = -1;
    std::memcpy(&received, CMSG_DATA(part), sizeof(received));
    fd = UniqueFd(received);
  }
  if (got != sizeof(label)) fd.reset();
  return true;
}

}  // namespace

static_assert(sizeof(Label) == 24, "a label is sent as it lies in memory");

std::string inbox_path(std::uint64_t name) {
  return fmt::format("{}/{}{:016x}", private_runtime_folder(), inbox_prefix(), name);
}

std::string inbox_folder() {
  const std::string folder = private_runtime_folder();
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) throw_inbox_error("cannot read the folder " + folder, errno);
  return fmt::format("{} (device {}, inode {})", folder, status.st_dev, status.st_ino);
}

DescriptorInbox::DescriptorInbox()
    : name_(random_name()),
      path_(inbox_path(name_)),
      socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (!socket_) throw_inbox_error("cannot make a Unix socket", errno);
  const sockaddr_un address = unix_address(path_);
  const SocketFolderLock lock(path_);  // others would take a socket that is being bound for a dead one's
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw_inbox_error("cannot make the Unix socket " + path_, errno);
  }
  if (::listen(socket_.get(), SOMAXCONN) != 0) {
    const int code = errno;
    ::unlink(path_.c_str());
    throw_inbox_error("cannot listen on a Unix socket", code);
  }
  remove_stale_inboxes(path_, lock);
}

DescriptorInbox::~DescriptorInbox() {
  if (home_.is_here()) ::unlink(path_.c_str());
}

void DescriptorInbox::accept_senders() {
  while (senders_.size() < kMostSenders) {
    UniqueFd sender(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!sender) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) throw_inbox_error("cannot receive memory", errno);
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (is_of_this_user(sender.get())) senders_.push_back(std::move(sender));
  }
}

void DescriptorInbox::read_letters() {
  const auto is_done = [this](const UniqueFd& sender) {
    Label label;
    UniqueFd fd;
    if (!read_letter(sender.get(), label, fd)) return false;
    if (fd) letters_[label] = std::move(fd);
    return true;
  };
  senders_.erase(std::remove_if(senders_.begin(), senders_.end(), is_done), senders_.end());
}

UniqueFd DescriptorInbox::take(const Label& label, std::chrono::milliseconds patience) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Deadline deadline = Deadline::after(patience);
  for (;;) {
    accept_senders();
    read_letters();
    const auto found = letters_.find(label);
    if (found != letters_.end()) {
      UniqueFd fd = std::move(found->second);
      letters_.erase(found);
      return fd;
    }
    if (deadline.passed()) return UniqueFd();
    pollfd ready{socket_.get(), POLLIN, 0};
    // A sender that has connected but not sent yet is checked again soon.
    const auto wait = senders_.empty() ? std::min<std::chrono::milliseconds>(deadline.remaining(), patience) : kRetry;
    ::poll(&ready, 1, static_cast<int>(wait.count()));
  }
}

bool send_descriptor(std::uint64_t inbox, const Label& label, int fd, Deadline deadline) {
  const sockaddr_un address = unix_address(inbox_path(inbox));
  const UniqueFd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection) throw_inbox_error("cannot make a Unix socket", errno);
  while (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT) return false;
    if (errno != EAGAIN && errno != EINTR) throw_inbox_error("cannot hand over memory", errno);
    if (deadline.passed()) {
      throw TimeoutError("cannot hand over memory: the other rank's socket is full", "shared memory",
                         "look for programs of this user that connect to its Unix sockets");
    }
    std::this_thread::sleep_for(kRetry);
  }
  if (!is_of_this_user(connection.get())) return false;
  DescriptorRoom room{};
  Label text = label;
  iovec part{&text, sizeof(text)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof(room.bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(connection.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return false;
  if (sent != sizeof(text)) throw_inbox_error("cannot hand over memory", sent < 0 ? errno : EIO);
  return true;
}

}  // namespace lockstep::shm
