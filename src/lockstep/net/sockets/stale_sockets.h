#pragma once

#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// One server at a time makes sockets in a folder, or removes stale ones: between bind and listen a server's socket
/// looks like that of a dead one, and two that replace a dead one must not replace each other. A courtesy: it is waited
/// for a second.
class SocketFolderLock {
 public:
  /// @param socket_path  in the folder
  explicit SocketFolderLock(const std::string& socket_path);
  bool is_held() const { return is_held_; }

 private:
  UniqueFd folder_;
  bool is_held_ = false;
};

/// True where a socket file exists that nobody listens on: its server died. Under the folder's lock.
bool is_stale_socket(const std::string& path);

/// Removes the sockets of dead jobs in the folder of `path`, a server's own: those named by `unique_socket_name`.
/// Nothing where the lock is not held. Does not throw: what cannot be removed is in nobody's way.
void remove_stale_sockets_beside(const std::string& path, const SocketFolderLock& lock) noexcept;

}  // namespace lockstep
