#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A process that has, or had, a right in an output folder, as it wrote itself into a lock file there.
struct FolderHolder {
  std::string host;
  std::int64_t pid = 0;
  std::string since;
  std::string job;       ///< the launcher's name of its job (TORCHELASTIC_RUN_ID); empty: it has no name
  std::string launcher;  ///< differs between launchers that have such a mark; empty: none, or not known

  static FolderHolder this_process();
  /// "process 12 on host a, since 2026-01-01 12:00:00 UTC".
  std::string text() const;
  bool is_on_another_host() const;
  /// The same launcher has started it, for this start of the ranks or an earlier one.
  bool is_of_own_launcher() const;
  /// It is of a job of the same name; or a name is missing, and it is of no other launcher of this host, as far as that
  /// is known.
  bool may_be_of_own_job() const;
  /// Whether it is about to end, or to let go: a process of the same job, any one that may be of it if a launcher has
  /// started this rank again, or another thread of this process.
  bool ends_soon() const;
  /// It was a process of this host, and is not there any more.
  bool has_ended() const;
};

/// The processes that are written in a file: one a line, the first one first. Each writes itself just after locking.
std::vector<FolderHolder> holders_in(int fd);
/// Writes this process behind those that are in the file, or in their place. For other processes to read: locks work
/// without it, so a full disk is no reason to stop.
void add_holder(int fd);
void replace_holders(int fd);

/// How long a process that is about to end may take for it. The kernel releases locks with their process; an NFS server
/// keeps those of a host that is gone for 90 s by default. @param is_elsewhere  on another host
constexpr std::chrono::milliseconds longest_end(bool is_elsewhere) {
  return is_elsewhere ? std::chrono::seconds(120) : std::chrono::seconds(20);
}

/// Opens a lock file, and makes it if it is not there. A file that another user's crash left in a shared folder can be
/// locked, too. @return  nothing if that fails: see errno
UniqueFd open_lock_file(const std::string& path);

/// "another training writes into this folder: `who`". @param who  may be empty: it is not known
/// @param is_elsewhere  on another host. @param is_final  a launcher is not to start this rank again for it
/// @throws Error  always
[[noreturn]] void refuse_held_folder(const std::string& who, bool is_elsewhere, bool is_final,
                                     const std::string& folder, const std::string& file);

}  // namespace lockstep
