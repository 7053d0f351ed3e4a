#include "tests/checkpoint/faulty_file_system.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string parent_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// The new path of `path` after `from` was renamed to `to`.
std::string moved(const std::string& path, const std::string& from, const std::string& to) {
  if (path == from) return to;
  return path.compare(0, from.size() + 1, from + "/") == 0 ? to + path.substr(from.size()) : path;
}

}  // namespace

// True if the call must fail; does not return if the process dies.
bool FaultyFileSystem::strikes(bool needs_space) {
  if (calls_++ == at_call_) strike();
  return full_ && needs_space && (errno = ENOSPC);
}

void FaultyFileSystem::strike() {
  struck_ = true;
  if (fault_ == Fault::Full) {
    full_ = true;
    return;
  }
  if (fault_ != Fault::Kill) lose_data();
  if (fault_ == Fault::LoseNames) lose_names();
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

void FaultyFileSystem::lose_data() const {
  for (const std::string& path : unsynced_) (void)!::truncate(path.c_str(), 0);
}

void FaultyFileSystem::lose_names() {
  while (!changes_.empty()) {
    const Change change = changes_.back();
    changes_.pop_back();
    if (change.kind == Change::Created) {
      std::error_code ignored;
      fs::remove_all(change.path, ignored);
    } else if (change.kind == Change::Renamed) {
      FileSystem::rename(change.other, change.path);
      follow(change.other, change.path);
    } else {
      FileSystem::exchange(change.path, change.other);
      follow(change.path, "\1");
      follow(change.other, change.path);
      follow("\1", change.other);
    }
  }
}

void FaultyFileSystem::follow(const std::string& from, const std::string& to) {
  std::set<std::string> unsynced;
  for (const std::string& path : unsynced_) unsynced.insert(moved(path, from, to));
  unsynced_ = std::move(unsynced);
  for (Change& change : changes_) {
    change.path = moved(change.path, from, to);
    change.other = moved(change.other, from, to);
  }
}

int FaultyFileSystem::create(const std::string& path, mode_t mode) {
  if (strikes(true)) return -1;
  const int fd = FileSystem::create(path, mode);
  if (fd < 0) return fd;
  open_[fd] = path;
  unsynced_.insert(path);
  changes_.push_back({Change::Created, path, ""});
  return fd;
}

ssize_t FaultyFileSystem::write(int fd, const void* data, std::size_t size_bytes) {
  if (strikes(true)) return -1;
  const std::int64_t end = bytes_ + static_cast<std::int64_t>(size_bytes);
  const bool reaches = at_byte_ >= bytes_ && at_byte_ < end;
  if (reaches) size_bytes = static_cast<std::size_t>(at_byte_ - bytes_);
  unsynced_.insert(open_[fd]);
  const ssize_t written = size_bytes == 0 ? 0 : FileSystem::write(fd, data, size_bytes);
  if (written > 0) bytes_ += written;
  if (!reaches) return written;
  strike();
  errno = ENOSPC;
  return written > 0 ? written : -1;
}

int FaultyFileSystem::reserve(int /*fd*/, std::uint64_t /*size_bytes*/) { return strikes(true) ? -1 : 0; }

int FaultyFileSystem::sync(int fd) {
  if (strikes(true)) return -1;
  if (!ignores_syncs) unsynced_.erase(open_[fd]);
  return 0;
}

int FaultyFileSystem::make_folder(const std::string& path, mode_t mode) {
  if (strikes(true)) return -1;
  const int result = FileSystem::make_folder(path, mode);
  if (result == 0) changes_.push_back({Change::Created, path, ""});
  return result;
}

int FaultyFileSystem::sync_folder(const std::string& path) {
  if (strikes(true)) return -1;
  if (ignores_syncs) return 0;
  const auto is_in = [&](const Change& change) { return parent_of(change.path) == path; };
  changes_.erase(std::remove_if(changes_.begin(), changes_.end(), is_in), changes_.end());
  return 0;
}

int FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  if (strikes(true)) return -1;
  const int result = FileSystem::rename(from, to);
  if (result != 0) return result;
  follow(from, to);
  changes_.push_back({Change::Renamed, from, to});
  return 0;
}

int FaultyFileSystem::exchange(const std::string& a, const std::string& b) {
  if (strikes(true)) return -1;
  if (!can_exchange) {
    errno = EINVAL;
    return -1;
  }
  const int result = FileSystem::exchange(a, b);
  if (result != 0) return result;
  follow(a, "\1");
  follow(b, a);
  follow("\1", b);
  changes_.push_back({Change::Exchanged, a, b});
  return 0;
}

int FaultyFileSystem::remove_file(const std::string& path) {
  if (strikes(false)) return -1;
  unsynced_.erase(path);
  const auto is_it = [&](const Change& change) { return change.kind == Change::Created && change.path == path; };
  changes_.erase(std::remove_if(changes_.begin(), changes_.end(), is_it), changes_.end());
  return FileSystem::remove_file(path);
}

int FaultyFileSystem::remove_folder(const std::string& path) {
  if (strikes(false)) return -1;
  return FileSystem::remove_folder(path);
}

}  // namespace lockstep
