#include "lockstep/train/folder/folder_holder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/job_mark.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/random/hash_bytes.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;

// The launcher's name of this job; empty if the job has no name.
std::string job_name() {
  const std::string id = env_string("TORCHELASTIC_RUN_ID").value_or("");
  return id == "none" ? "" : id;
}

// Not the mark itself, by which a guard finds the processes that it ends.
std::string launcher_digest() {
  const std::string mark = env_string(kJobMarkVariable).value_or("");
  return mark.empty() ? "" : hash_text(mark.data(), mark.size(), /*seed=*/0x666f6c646572);
}

std::string line_of(const FolderHolder& holder) {
  const nlohmann::json json{{"host", holder.host},
                            {"pid", holder.pid},
                            {"since", holder.since},
                            {"job", holder.job},
                            {"launcher", holder.launcher}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<FolderHolder> holder_in(const std::string& line) {
  using Json = nlohmann::json;
  const Json json = Json::parse(line, nullptr, false);
  const auto has_text = [&](const char* name) { return json.value(name, Json()).is_string(); };
  if (!json.is_object() || !has_text("host") || !has_text("since") || !has_text("job") ||
      !json.value("pid", Json()).is_number_integer()) {
    return std::nullopt;
  }
  return FolderHolder{json["host"], json["pid"], json["since"], json["job"],
                      has_text("launcher") ? json["launcher"].get<std::string>() : ""};
}

// Whether the launcher has restarted these ranks: the previous ones may be about to end, perhaps on another host.
bool is_started_again() {
  const auto times = env_int("LOCKSTEP_GENERATION");
  return times.value_or(env_int("TORCHELASTIC_RESTART_COUNT").value_or(0)) > 0;
}

}  // namespace

FolderHolder FolderHolder::this_process() {
  return {host_name(), ::getpid(), fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr))), job_name(),
          launcher_digest()};
}

std::string FolderHolder::text() const { return fmt::format("process {} on host {}, since {}", pid, host, since); }

bool FolderHolder::is_on_another_host() const { return host != host_name(); }

bool FolderHolder::is_of_own_launcher() const { return !launcher.empty() && launcher == launcher_digest(); }

bool FolderHolder::may_be_of_own_job() const {
  const std::string own = job_name();
  if (!own.empty() && job == own) return true;
  const bool has_other_launcher = !launcher.empty() && !launcher_digest().empty() && !is_of_own_launcher();
  return (own.empty() || job.empty()) && (is_on_another_host() || !has_other_launcher);
}

bool FolderHolder::ends_soon() const {
  const bool is_own_job = !job.empty() && job == job_name();
  return is_own_job || (is_started_again() && may_be_of_own_job()) || (pid == ::getpid() && !is_on_another_host());
}

bool FolderHolder::has_ended() const {
  return !is_on_another_host() && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

std::vector<FolderHolder> holders_in(int fd) {
  std::string text(kMostBytes, '\0');
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  std::vector<FolderHolder> holders;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (auto holder = holder_in(line)) holders.push_back(*std::move(holder));
  }
  return holders;
}

void add_holder(int fd) {
  const std::string text = line_of(FolderHolder::this_process());
  if (::write(fd, text.data(), text.size()) < 0) log_debug("cannot write who holds a lock: {}", errno_text(errno));
}

void replace_holders(int fd) {
  if (::ftruncate(fd, 0) == 0) add_holder(fd);
}

UniqueFd open_lock_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!fd && errno == EACCES) fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd;
}

void refuse_held_folder(const std::string& who, bool is_elsewhere, bool is_final, const std::string& folder,
                        const std::string& file) {
  const Error error("another training writes into this folder" + (who.empty() ? "" : ": " + who), folder,
                    "give another --output-dir, or end that training, or wait until it has ended" +
                        (is_elsewhere ? fmt::format("; if that host is gone for good, remove {}", file) : ""));
  if (!is_final) throw error;
  throw_caused(error, FailureCause{FailureCause::Kind::Usage, -1});
}

}  // namespace lockstep
