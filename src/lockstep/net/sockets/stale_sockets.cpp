#include "lockstep/net/sockets/stale_sockets.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/environment/env_address.h"
#include "lockstep/net/hmac.h"
#include "lockstep/net/sockets/unix_address.h"

namespace lockstep {
namespace {

// With a slash at its end; "" is the current folder.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

}  // namespace

std::string kernel_mark() {
  constexpr std::size_t kMarkDigits = 8;
  const std::string id = host_id();
  return to_hex(hmac_sha256("lockstep inbox", {id.substr(0, id.find('/'))})).substr(0, kMarkDigits);
}

SocketFolderLock::SocketFolderLock(const std::string& socket_path)
    : folder_(::open(folder_of(socket_path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(1));
  while (folder_) {
    is_held_ = ::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0;
    if (is_held_ || deadline.passed()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// A connection to a Unix socket succeeds or fails at once, so there is nothing to wait for.
bool is_stale_socket(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const sockaddr_un address = unix_address(path);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

void remove_stale_sockets_beside(const std::string& path, const SocketFolderLock& lock) noexcept {
  if (!lock.is_held()) return;
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder_of(path))) {
      const std::string other = entry.path().string();
      if (other == path || !is_unique_socket_name(entry.path().filename().string())) continue;
      if (is_stale_socket(other)) ::unlink(other.c_str());
    }
  } catch (const std::exception& error) {
    log_debug("cannot remove old sockets beside {}: {}", path, error.what());
  }
}

}  // namespace lockstep
