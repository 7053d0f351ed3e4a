#include "lockstep/data/files/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/files/gzip.h"
#include "lockstep/data/files/inflate_limit.h"
#include "lockstep/data/files/text_encoding.h"
#include "lockstep/data/files/zstd.h"

namespace lockstep {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path, const std::string& cause) {
  throw Error("cannot " + action + " " + path + ": " + cause, path,
              "check that the path is that of a file, and that you may read it");
}

// What Hugging Face's datasets write with save_to_disk: Arrow files, and a description.
void refuse_dataset_folder(const std::string& path) {
  for (const char* name : {"/dataset_info.json", "/state.json", "/dataset_dict.json"}) {
    if (::access((path + name).c_str(), F_OK) != 0) continue;
    throw Error(
        "datasets.save_to_disk wrote this folder, and one file is read here", path,
        "name it as a file of texts, to train, evaluate or predict; its state.json must be there. Or write JSON Lines, "
        "in Python: datasets.load_from_disk(FOLDER).to_json(\"data.jsonl\")");
  }
}

// Reads up to `bytes`, as many as there are.
std::string whole_content(const UniqueFd& fd, std::size_t bytes, const std::string& path) {
  std::string content(bytes, '\0');
  std::size_t size = 0;
  while (size < bytes) {
    const ssize_t got = ::read(fd.get(), content.data() + size, bytes - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno_text(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  content.resize(size);
  return content;
}

}  // namespace

FileBytes FileBytes::open_raw(const std::string& path) {
  // O_NONBLOCK: must not wait for the writer of a named pipe; it does not affect a file.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail("open", path, errno_text(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail("read", path, errno_text(errno));
  if (S_ISDIR(status.st_mode)) refuse_dataset_folder(path);
  if (!S_ISREG(status.st_mode))
    fail("read", path, S_ISDIR(status.st_mode) ? "it is a folder" : "it is not a plain file");
  FileBytes file;
  file.path_ = path;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes < kMappedFromBytes) {
    file.content_ = whole_content(fd, bytes, path);
    file.view_ = file.content_;
    return file;
  }
  file.map_ = std::make_unique<MappedFile>(std::move(fd), bytes, MappedFile::Access::ReadOnly, path);
  file.map_->expect_sequence(true);
  file.view_ = {file.map_->data(), bytes};
  return file;
}

FileBytes FileBytes::open(const std::string& path) {
  FileBytes raw = open_raw(path);
  const bool has_gzip = is_gzip(raw.view());
  if (!has_gzip && !is_zstd(raw.view())) return raw;
  FileBytes file;
  file.path_ = path;
  const std::size_t most_bytes = most_inflated_bytes(raw.view().size());
  file.content_ = has_gzip ? gunzip(raw.view(), path, most_bytes) : unzstd(raw.view(), path, most_bytes);
  file.view_ = file.content_;
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
  std::swap(content_, other.content_);
  std::swap(view_, other.view_);
  // A short string is inside the object that holds it, so a move changes its address.
  if (!map_) view_ = content_;
  if (!other.map_) other.view_ = other.content_;
  return *this;
}

void FileBytes::expect_random_access() {
  if (map_) map_->expect_sequence(false);
}

}  // namespace lockstep
