#include "lockstep/train/folder/folder_presence.h"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/files/is_file_at.h"
#include "lockstep/train/folder/held_folders.h"

namespace lockstep {
namespace {

// @return  0, or errno
int lock_at_once(int fd, int how) {
  while (::flock(fd, how | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

bool are_of_own_training(const std::vector<FolderHolder>& holders, FolderPresence::As as) {
  using As = FolderPresence::As;
  const std::string job = FolderHolder::this_process().job;
  return std::any_of(holders.begin(), holders.end(), [&](const FolderHolder& each) {
    return each.is_of_own_launcher() || (as == As::Follower && each.job == job) ||
           (as == As::Successor && each.may_be_of_own_job());
  });
}

}  // namespace

FolderPresence::FolderPresence(std::string path, UniqueFd fd, bool is_held)
    : path_(std::move(path)), fd_(std::move(fd)), is_held_(is_held) {}

// Removed while nobody else can enter: who has opened the file meanwhile notices, and opens the next one.
FolderPresence::~FolderPresence() {
  if (is_held_ && lock_at_once(fd_.get(), LOCK_EX) == 0 && is_in_place()) ::unlink(path_.c_str());
}

bool FolderPresence::is_in_place() const { return is_file_at(fd_.get(), path_); }

FolderPresence::Try FolderPresence::try_enter(const std::string& folder, As as) {
  static HeldFolders<FolderPresence> own;
  Try result;
  result.presence = own.get(folder, [&] { return enter(folder + "/" + kFile, as, result); });
  return result;
}

std::shared_ptr<const FolderPresence> FolderPresence::enter(const std::string& path, As as, Try& result) {
  while (true) {
    UniqueFd fd = open_lock_file(path);
    if (!fd) {
      result.problem = errno;
      return nullptr;
    }
    const auto made = [&](bool is_held) {
      return std::shared_ptr<const FolderPresence>(new FolderPresence(path, std::move(fd), is_held));
    };
    const int problem = lock_at_once(fd.get(), LOCK_EX);
    if (problem != 0 && problem != EWOULDBLOCK) return made(false);
    const bool is_alone = problem == 0;
    if (is_alone && !is_file_at(fd.get(), path)) continue;  // its last holder has removed it
    if (is_alone) replace_holders(fd.get());
    result.others = holders_in(fd.get());
    if (!is_alone && !are_of_own_training(result.others, as)) return nullptr;
    // Another training may have been quicker between the two locks.
    if (lock_at_once(fd.get(), LOCK_SH) != 0) return nullptr;
    if (!is_file_at(fd.get(), path)) continue;
    if (!is_alone) add_holder(fd.get());
    result.others.clear();
    return made(true);
  }
}

}  // namespace lockstep
