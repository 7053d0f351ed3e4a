#include "lockstep/launch/job_folder.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/net/sockets/runtime_folder.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_folder(const std::string& path, int code) {
  throw Error("cannot make the folder " + path + ": " + errno_text(code), "the launcher",
              "choose a folder that you may write to, with --log-dir or TMPDIR");
}

void make_folder(const std::string& path) {
  std::error_code status;
  std::filesystem::create_directories(path, status);
  if (status) refuse_folder(path, status.value());
}

std::string fresh_folder(const std::string& start) {
  std::string path = start + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) refuse_folder(path, errno);
  return path;
}

std::string temporary_folder() {
  std::error_code status;
  const auto path = std::filesystem::temp_directory_path(status);
  return status ? "/tmp" : path.string();
}

}  // namespace

JobFolder::JobFolder(const std::string& run_id, const std::string& log_base, bool wants_log_files) {
  std::string name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  if (!log_base.empty()) {
    make_folder(log_base);
    log_path_ = fresh_folder(std::filesystem::absolute(log_base).string() + "/" + name + "_");
  } else if (wants_log_files) {
    log_path_ = fresh_folder(temporary_folder() + "/lockstep_" + name + "_");
  }
  private_path_ = fresh_folder(private_runtime_folder() + "/job-");
}

JobFolder::~JobFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(private_path_, ignored);
}

std::string JobFolder::rank_path(std::int64_t attempt, int local_rank, int member) const {
  const std::string& base = log_path_.empty() ? private_path_ : log_path_;
  std::string path = base + "/attempt_" + std::to_string(attempt) + "/" + std::to_string(local_rank);
  if (member >= 0) path += "/member_" + std::to_string(member);
  make_folder(path);
  return path;
}

}  // namespace lockstep
