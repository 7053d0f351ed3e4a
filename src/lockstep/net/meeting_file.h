#pragma once

#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// Where a job's store is, and the secret that it asks for.
struct MeetingPoint {
  SocketAddress address;
  std::string secret;
};

/// The file of "file:///path": rank 0 writes the meeting point into it, the others read it. Read and written under
/// flock(2), accessible to this user alone.
///
/// The content of a job that crashed stays behind. It does no harm: its store does not answer any more, or, where
/// another process has taken the address, not with that file's secret, so readers try until rank 0 has replaced it.
class MeetingFile {
 public:
  explicit MeetingFile(std::string path) : path_(std::move(path)) {}

  /// Replaces the content; creates the file where it is missing.
  /// @throws Error         if it cannot be written, or belongs to somebody else
  /// @throws TimeoutError  if somebody holds the lock until the deadline
  void publish(const MeetingPoint& point, Deadline deadline) const;
  /// Nothing where the file is missing or empty, or holds something else. Throws as `publish`.
  std::optional<MeetingPoint> read(Deadline deadline) const;
  /// Removes the file if it still holds `point`. Throws as `publish`.
  void remove(const MeetingPoint& point, Deadline deadline) const;

  const std::string& path() const { return path_; }
  /// True where the file is on a file system that only this host sees.
  bool on_local_file_system() const;

 private:
  UniqueFd open_locked(int flags, int lock, Deadline deadline) const;
  bool is_current(int fd) const;

  std::string path_;
};

}  // namespace lockstep
