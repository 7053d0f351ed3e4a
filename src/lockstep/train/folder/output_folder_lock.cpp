#include "lockstep/train/folder/output_folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/is_file_at.h"
#include "lockstep/base/log.h"
#include "lockstep/train/folder/folder_holder.h"
#include "lockstep/train/folder/held_folders.h"

namespace lockstep {

bool OutputFolderLock::is_in_place() const { return is_file_at(fd_.get(), path_); }

OutputFolderLock::OutputFolderLock(std::string path, UniqueFd fd, bool is_held)
    : path_(std::move(path)), fd_(std::move(fd)), is_held_(is_held) {}

// Removed while locked: a process that has opened the file meanwhile notices, and opens the next one.
OutputFolderLock::~OutputFolderLock() {
  if (is_held_ && is_in_place()) ::unlink(path_.c_str());
}

// The lock, or the process that holds it; nothing if that is not written yet.
struct OutputFolderLock::Try {
  std::shared_ptr<const OutputFolderLock> lock;
  std::optional<FolderHolder> holder;
};

OutputFolderLock::Try OutputFolderLock::try_new_lock(const std::string& folder) {
  const std::string path = folder + "/" + kFile;
  while (true) {
    UniqueFd fd = open_lock_file(path);
    if (!fd) {
      throw Error("cannot make the lock file " + path + ": " + errno_text(errno), folder,
                  "give an --output-dir that you may write to, on a disk with free space");
    }
    const auto made = [&](bool is_held) {
      return std::shared_ptr<const OutputFolderLock>(new OutputFolderLock(path, std::move(fd), is_held));
    };
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!is_file_at(fd.get(), path)) continue;  // its last holder has removed it
      replace_holders(fd.get());
      return {made(true), {}};
    }
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) {
      std::vector<FolderHolder> holders = holders_in(fd.get());
      return {nullptr, holders.empty() ? std::nullopt : std::optional<FolderHolder>(std::move(holders.front()))};
    }
    log_warning(
        "{}: this file system does not support file locks ({}), so a second training in the same folder would go "
        "unnoticed",
        folder, errno_text(errno));
    return {made(false), {}};
  }
}

OutputFolderLock::Try OutputFolderLock::try_lock(const std::string& folder) {
  static HeldFolders<OutputFolderLock> own;
  Try found;
  found.lock = own.get(folder, [&] {
    Try fresh = try_new_lock(folder);
    found.holder = std::move(fresh.holder);
    return fresh.lock;
  });
  return found;
}

std::shared_ptr<const OutputFolderLock> OutputFolderLock::try_take(const std::string& folder, std::string& holder) {
  const Try found = try_lock(folder);
  if (!found.lock) holder = found.holder ? found.holder->text() : "";
  return found.lock;
}

std::shared_ptr<const OutputFolderLock> OutputFolderLock::take(const std::string& folder, Awaited awaited,
                                                               std::optional<std::chrono::milliseconds> patience) {
  constexpr auto kBetweenTries = std::chrono::milliseconds(20);
  constexpr auto kUntilWritten = std::chrono::milliseconds(500);
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    const Try found = try_lock(folder);
    if (found.lock) return found.lock;
    const std::optional<FolderHolder>& holder = found.holder;
    const bool is_elsewhere = holder && holder->is_on_another_host();
    const auto waited = std::chrono::steady_clock::now() - began;
    const bool is_awaited = !holder || awaited == Awaited::Any || holder->ends_soon();
    const std::chrono::milliseconds limit = patience.value_or(longest_end(is_elsewhere));
    if (!is_awaited || waited > (holder ? limit : kUntilWritten)) {
      refuse_held_folder(holder ? holder->text() : "", is_elsewhere, !is_awaited, folder, folder + "/" + kFile);
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace lockstep
