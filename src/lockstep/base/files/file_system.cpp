#include "lockstep/base/files/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

int FileSystem::create(const std::string& path, mode_t mode) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
}

ssize_t FileSystem::write(int fd, const void* data, std::size_t size_bytes) { return ::write(fd, data, size_bytes); }

int FileSystem::reserve(int fd, std::uint64_t size_bytes) {
  // Not posix_fallocate: if the file system does not support it, that writes every block.
  if (size_bytes == 0 || ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_bytes)) == 0) return 0;
  return errno == ENOSPC || errno == EDQUOT ? -1 : 0;
}

int FileSystem::sync(int fd) { return ::fsync(fd); }

int FileSystem::make_folder(const std::string& path, mode_t mode) { return ::mkdir(path.c_str(), mode); }

int FileSystem::sync_folder(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd ? ::fsync(fd.get()) : -1;
}

int FileSystem::rename(const std::string& from, const std::string& to) { return ::rename(from.c_str(), to.c_str()); }

int FileSystem::exchange(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
}

int FileSystem::remove_file(const std::string& path) { return ::unlink(path.c_str()); }

int FileSystem::remove_folder(const std::string& path) { return ::rmdir(path.c_str()); }

std::int64_t FileSystem::free_bytes(const std::string& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) return -1;
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

std::vector<std::string> FileSystem::names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), ::closedir);
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool FileSystem::remove_tree(const std::string& path) {
  struct stat status {};
  const auto is_gone = [](int result) { return result == 0 || errno == ENOENT; };
  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT;
  if (!S_ISDIR(status.st_mode)) return is_gone(remove_file(path));
  bool all = true;
  for (const std::string& name : names_in(path)) all = remove_tree(path + "/" + name) && all;
  return all && is_gone(remove_folder(path));
}

FileSystem& real_file_system() {
  static FileSystem files;
  return files;
}

}  // namespace lockstep
