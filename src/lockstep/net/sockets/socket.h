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

/// The file of a Unix socket that listens; removed with this object, unless another has taken its place meanwhile.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(std::string path);
  SocketFile(SocketFile&& other) noexcept { *this = std::move(other); }
  SocketFile& operator=(SocketFile&& other) noexcept;
  ~SocketFile();
  /// Leaves the file where it is.
  void release() { path_.clear(); }

 private:
  std::string path_;  // empty: no file
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A socket that listens, non-blocking, and where.
struct Listener {
  UniqueFd fd;
  SocketFile file;        ///< of a Unix socket
  SocketAddress address;  ///< with the port that the kernel chose
  bool loopback = true;   ///< only this host can reach it; Unix sockets too
};

/// Listens at `address` and nowhere else. A Unix socket gets mode 0600; a socket file of a dead process is replaced.
/// @throws AddressInUseError  if somebody listens there
/// @throws Error  if the address is not of this host, or cannot be resolved
Listener listen_at(const SocketAddress& address, Deadline deadline);

/// What came of one attempt to connect.
struct Connected {
  UniqueFd fd;                ///< none where it failed
  std::string failure;        ///< "connection refused", ...
  bool unknown_host = false;  ///< the name service says that there is no such host
};

/// Tries each address that `address` resolves to, once. Non-blocking.
/// @param loopback_only  refuse addresses that lead out of this host
/// @throws Error  if no later attempt can do better: not loopback, path too long, socket of another user
Connected connect_once(const SocketAddress& address, bool loopback_only, Deadline deadline);

/// Sets what the connections of a store want: no delay, and an end within 15 s of the other host's vanishing. Nothing
/// on Unix sockets.
void tune_connection(int fd);

/// True where the process at the other end of Unix socket `fd` runs under this user.
bool peer_is_same_user(int fd);

/// True once all of `bytes` is sent; false where the connection broke or the deadline came first.
bool send_all(int fd, std::string_view bytes, Deadline deadline);

struct Received {
  std::string bytes;
  bool closed = false;     ///< the connection ended before `count` bytes
  bool timed_out = false;  ///< the deadline came before them
};
/// Waits for exactly `count` bytes.
Received receive_exactly(int fd, std::size_t count, Deadline deadline);

}  // namespace lockstep
