#pragma once

#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// What names of this kernel's sockets contain, 8 hexadecimal digits. A folder may be on a file system that several
/// hosts share, and a socket that another kernel serves looks dead here.
std::string kernel_mark();

/// Lets only one server at a time create or remove sockets in a folder. Between bind and listen a server's socket looks
/// like a dead one's, and two servers that replace a dead one must not replace each other. The constructor waits at
/// most a second for the lock and then proceeds without it.
class SocketFolderLock {
 public:
  /// @param socket_path  a path in the folder
  explicit SocketFolderLock(const std::string& socket_path);
  bool is_held() const { return is_held_; }

 private:
  UniqueFd folder_;
  bool is_held_ = false;
};

/// Whether a socket file exists on which no process listens, because its server died. Call it under the folder's lock.
bool is_stale_socket(const std::string& path);

/// Removes the sockets of dead jobs from the folder of `path`, the server's own socket: those with a name that
/// `unique_socket_name` gives on this kernel. Does nothing if the lock is not held. Does not throw: a file that cannot
/// be removed disturbs nobody.
void remove_stale_sockets_beside(const std::string& path, const SocketFolderLock& lock) noexcept;

}  // namespace lockstep
