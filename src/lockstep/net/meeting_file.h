#pragma once

#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// The address of a job's store, and the secret that it requires.
struct MeetingPoint {
  SocketAddress address;
  std::string secret;
};

/// The file of "file:///path": rank 0 writes the meeting point into it, the others read it. Read and written under
/// flock(2), accessible only to this user.
///
/// The content of a crashed job stays in the file. It does no harm: that job's store no longer answers, or another
/// process has taken the address and does not know the file's secret. Readers therefore try again until rank 0 has
/// replaced the content.
class MeetingFile {
 public:
  explicit MeetingFile(std::string path) : path_(std::move(path)) {}

  /// Replaces the content; creates the file if it is missing.
  /// @throws Error  if the file cannot be written, or belongs to another user
  /// @throws TimeoutError  if another process holds the lock until the deadline
  void publish(const MeetingPoint& point, Deadline deadline) const;
  /// The content; nothing if the file is missing or empty, or holds something else. Throws as `publish`.
  std::optional<MeetingPoint> read(Deadline deadline) const;
  /// Removes the file if it still holds `point`. Throws as `publish`.
  void remove(const MeetingPoint& point, Deadline deadline) const;

  const std::string& path() const { return path_; }
  /// Whether the file is on a file system that only this host sees.
  bool on_local_file_system() const;

 private:
  UniqueFd open_locked(int flags, int lock, Deadline deadline) const;
  bool is_current(int fd) const;

  std::string path_;
};

}  // namespace lockstep
