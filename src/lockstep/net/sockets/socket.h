#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// The file of a listening Unix socket; removed with this object, unless another file has replaced it meanwhile.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(std::string path);
  SocketFile(SocketFile&& other) noexcept { *this = std::move(other); }
  SocketFile& operator=(SocketFile&& other) noexcept;
  ~SocketFile();
  /// Gives the file up: it stays.
  void release() { path_.clear(); }

 private:
  std::string path_;  // empty: no file
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A listening, non-blocking socket and its address.
struct Listener {
  UniqueFd fd;
  SocketFile file;        ///< for a Unix socket
  SocketAddress address;  ///< with the port that the kernel chose
  bool loopback = true;   ///< only this host can reach it; true for Unix sockets
};

/// Listens at `address` and nowhere else. A Unix socket gets mode 0600; a socket file of a dead process is replaced.
/// @throws AddressInUseError  if another process listens there
/// @throws Error  if the address is not of this host, or cannot be resolved
Listener listen_at(const SocketAddress& address, Deadline deadline);

/// The result of one attempt to connect.
struct Connected {
  UniqueFd fd;                ///< empty after a failure
  std::string failure;        ///< "connection refused", ...
  bool unknown_host = false;  ///< the name service reports that the host does not exist
  bool refused = false;       ///< nobody listens there: the kernel of each address that was tried says so
};

/// Tries each address that `address` resolves to, once. Non-blocking.
/// @param loopback_only  refuse addresses outside of this host
/// @throws Error  if no later attempt can succeed: not loopback, path too long, socket of another user
Connected connect_once(const SocketAddress& address, bool loopback_only, Deadline deadline);

/// The numeric address of this end of a TCP connection; empty for other sockets.
std::string own_address(int fd);

/// Sets the options of connections between processes: no delay, an end within 15 s after the other host vanishes, and
/// (from Linux 6.15 on) at most 1 s between attempts to send lost bytes again. Does nothing on Unix sockets.
void tune_connection(int fd);

/// Whether the process at the other end of Unix socket `fd` runs as this user.
bool peer_is_same_user(int fd);

/// True once all of `bytes` is sent; false if the connection broke or the deadline passed first.
bool send_all(int fd, std::string_view bytes, Deadline deadline);

struct Received {
  std::string bytes;
  bool closed = false;     ///< the connection ended before `count` bytes arrived
  bool timed_out = false;  ///< the deadline passed before they arrived
};
/// Waits for exactly `count` bytes.
Received receive_exactly(int fd, std::size_t count, Deadline deadline);

}  // namespace lockstep
