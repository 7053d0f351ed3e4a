#include "lockstep/data/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/unique_fd.h"
#include "lockstep/data/gzip.h"
#include "lockstep/data/text_encoding.h"

namespace lockstep {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path, const std::string& cause) {
  throw Error("cannot " + action + " " + path + ": " + cause, path,
              "check that the path is that of a file, and that you may read it");
}

}  // namespace

FileBytes FileBytes::open_raw(const std::string& path) {
  // Not to wait for whoever writes into a named pipe; a file takes no notice.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail("open", path, errno_text(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail("read", path, errno_text(errno));
  if (!S_ISREG(status.st_mode)) fail("read", path, S_ISDIR(status.st_mode) ? "it is a folder" : "it is no plain file");
  FileBytes file;
  file.path_ = path;
  file.map_bytes_ = static_cast<std::size_t>(status.st_size);
  if (file.map_bytes_ == 0) return file;
  void* map = ::mmap(nullptr, file.map_bytes_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (map == MAP_FAILED) fail("map", path, errno_text(errno));
  ::madvise(map, file.map_bytes_, MADV_SEQUENTIAL);
  file.map_ = map;
  file.view_ = {static_cast<const char*>(map), file.map_bytes_};
  return file;
}

FileBytes FileBytes::open(const std::string& path) {
  FileBytes raw = open_raw(path);
  if (!is_gzip(raw.view())) return raw;
  FileBytes file;
  file.path_ = path;
  file.inflated_ = gunzip(raw.view(), path, kMostInflatedBytes);
  file.view_ = file.inflated_;
  return file;
}

FileBytes FileBytes::open_text(const std::string& path) {
  FileBytes file = open(path);
  refuse_wide_text(file.view(), path);
  return file;
}

FileBytes::FileBytes(FileBytes&& other) noexcept { *this = std::move(other); }

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(map_, other.map_);
  std::swap(map_bytes_, other.map_bytes_);
  std::swap(inflated_, other.inflated_);
  std::swap(view_, other.view_);
  // A short string lies inside the object that holds it.
  if (map_ == nullptr) view_ = inflated_;
  if (other.map_ == nullptr) other.view_ = other.inflated_;
  return *this;
}

void FileBytes::expect_random_access() {
  if (map_ != nullptr) ::madvise(map_, map_bytes_, MADV_NORMAL);
}

FileBytes::~FileBytes() {
  if (map_ != nullptr) ::munmap(map_, map_bytes_);
}

}  // namespace lockstep
