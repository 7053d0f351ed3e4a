#include "lockstep/hub/hub_file_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/text/size_text.h"
#include "lockstep/hub/hub_checksum.h"
#include "lockstep/hub/hub_refusal.h"
#include "lockstep/hub/web_request.h"

namespace lockstep {
namespace {

[[noreturn]] void fail_file(const std::string& action, const std::string& path) {
  const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  throw Error("cannot " + action + " " + path + ": " + errno_text(errno), path,
              is_full ? "free space on this file system, then repeat the command: what was downloaded is kept"
                      : "check that the folder exists and that you may write to it");
}

// Its name says which content it will have, so that a transfer of another version never continues it.
std::string partial_path(const HubFile& file, const std::string& folder) {
  constexpr std::size_t kShownDigits = 16;
  const std::string& sum = file.sha256.empty() ? file.git_sha1 : file.sha256;
  const std::filesystem::path path = std::filesystem::path(folder) / file.name;  // "1_Pooling/config.json" among them
  return path.parent_path() / fmt::format(".{}.{}.part", path.filename().string(), sum.substr(0, kShownDigits));
}

// A file that grows at its end. It stays if the process ends, and only one process can have it.
class PartialFile {
 public:
  explicit PartialFile(std::string path) : path_(std::move(path)) {
    fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!fd_) fail_file("open", path_);
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw Error("another process is downloading this file", path_, "wait for it, or stop it and repeat the command");
    }
    bytes_ = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  }

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }

  void append(std::string_view piece) {
    while (!piece.empty()) {
      const ssize_t written = ::write(fd_.get(), piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_file("write", path_);
      bytes_ += written;
      piece.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void clear() {
    if (::ftruncate(fd_.get(), 0) != 0) fail_file("shorten", path_);
    bytes_ = 0;
  }
  void sync() {
    if (::fsync(fd_.get()) != 0) fail_file("sync", path_);
  }

 private:
  std::string path_;
  UniqueFd fd_;
  std::int64_t bytes_ = 0;
};

class Transfer {
 public:
  Transfer(const HubSettings& settings, const HubModel& model, const HubFile& file, const std::string& folder,
           const std::string& revision, const HubProgress& progress)
      : settings_(settings),
        model_(model),
        file_(file),
        revision_(revision),
        progress_(progress),
        url_(hub_file_url(settings, model, file.name)),
        partial_(partial_path(file, folder)) {}

  void run(const std::string& path) {
    const bool continues = partial_.bytes() > 0;
    fetch_rest();
    std::string difference = difference_from(file_, partial_.path());
    if (!difference.empty() && continues) {  // perhaps of a crash that left blocks of zeros
      partial_.clear();
      fetch_rest();
      difference = difference_from(file_, partial_.path());
    }
    if (!difference.empty()) {
      partial_.clear();
      throw Error(fmt::format("{} differs from the file on the Hub: {}", file_.name, difference), url_,
                  "repeat the command; if this recurs, something between this machine and the Hub changes files");
    }
    partial_.sync();
    std::filesystem::rename(partial_.path(), path);
  }

 private:
  void fetch_rest() {
    if (partial_.bytes() > file_.bytes) partial_.clear();
    while (partial_.bytes() < file_.bytes) {
      const std::int64_t before = partial_.bytes();
      const WebAnswer answer = send_request(
          {url_, before, settings_.token}, [this](std::string_view piece) { take(piece); }, Deadline::never());
      if (answer.is_complete()) break;
      if (answer.lacks_ranges() && before > 0) {
        partial_.clear();
      } else if (partial_.bytes() == before) {
        throw hub_refusal(settings_, answer, model_.id, revision_, url_);
      }
    }
    if (file_.bytes == 0) progress_(file_, 0);
  }

  void take(std::string_view piece) {
    if (partial_.bytes() + static_cast<std::int64_t>(piece.size()) > file_.bytes) {
      throw Error(fmt::format("more than the {} bytes of {} arrived", file_.bytes, file_.name), url_,
                  "repeat the command; if this recurs, something between this machine and the Hub changes files");
    }
    partial_.append(piece);
    progress_(file_, partial_.bytes());
  }

  const HubSettings& settings_;
  const HubModel& model_;
  const HubFile& file_;
  const std::string& revision_;
  const HubProgress& progress_;
  std::string url_;
  PartialFile partial_;
};

}  // namespace

void fetch_hub_file(const HubSettings& settings, const HubModel& model, const HubFile& file, const std::string& folder,
                    const std::string& revision, const HubProgress& progress) {
  Transfer(settings, model, file, folder, revision, progress).run(folder + "/" + file.name);
}

std::int64_t fetched_bytes(const HubFile& file, const std::string& folder) {
  std::error_code absent;
  const auto bytes = std::filesystem::file_size(partial_path(file, folder), absent);
  return absent ? 0 : static_cast<std::int64_t>(bytes);
}

}  // namespace lockstep
