#include "lockstep/train/folder/output_folder_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/base/files/is_file_at.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

using HolderJson = nlohmann::json;

// The launcher's name of this job; empty if the job has no name.
std::string job_name() {
  const std::string id = env_string("TORCHELASTIC_RUN_ID").value_or("");
  return id == "none" ? "" : id;
}

// The lock's holder, according to the file. The holder writes it just after locking.
HolderJson holder_in(int fd) {
  char text[1024];
  const ssize_t bytes = ::pread(fd, text, sizeof(text), 0);
  HolderJson holder = HolderJson::parse(text, text + std::max<ssize_t>(bytes, 0), nullptr, false);
  const bool is_whole = holder.is_object() && holder.value("host", HolderJson()).is_string() &&
                        holder.value("pid", HolderJson()).is_number_integer() &&
                        holder.value("since", HolderJson()).is_string() &&
                        holder.value("job", HolderJson()).is_string();
  return is_whole ? holder : HolderJson();
}

// Written for other processes to read. The lock works without it, so a full disk is no reason to stop here.
void write_holder(int fd) {
  const HolderJson holder{{"host", host_name()},
                          {"pid", ::getpid()},
                          {"since", fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)))},
                          {"job", job_name()}};
  const std::string text = holder.dump(-1, ' ', false, HolderJson::error_handler_t::replace) + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0) {
    log_debug("cannot write who holds the lock: {}", errno_text(errno));
  }
}

// "process 12 on host a, since 2026-01-01 12:00:00 UTC"; empty if it is not known.
std::string text_of(const HolderJson& holder) {
  if (holder.is_null()) return "";
  return fmt::format("process {} on host {}, since {}", holder["pid"].get<std::int64_t>(),
                     holder["host"].get<std::string>(), holder["since"].get<std::string>());
}

bool is_on_another_host(const HolderJson& holder) {
  return !holder.is_null() && holder["host"].get<std::string>() != host_name();
}

[[noreturn]] void refuse_held(const HolderJson& holder, const std::string& folder, const std::string& path) {
  const std::string who = text_of(holder);
  throw Error(
      "another training writes into this folder" + (who.empty() ? "" : ": " + who), folder,
      "give another --output-dir, or wait until that training has ended" +
          (is_on_another_host(holder) ? fmt::format("; where that host is gone for good, remove {}", path) : ""));
}

// Whether the launcher has restarted these ranks: the previous ones may be about to end, perhaps on another host.
bool is_started_again() {
  const auto times = env_int("LOCKSTEP_GENERATION");
  return times.value_or(env_int("TORCHELASTIC_RESTART_COUNT").value_or(0)) > 0;
}

// Whether the holder is a process of the same job, or another thread of this process, which is about to release it.
bool ends_soon(const HolderJson& holder) {
  const bool is_own_job = !job_name().empty() && holder["job"] == job_name();
  return is_own_job || is_started_again() || (holder["pid"] == ::getpid() && holder["host"] == host_name());
}

}  // namespace

OutputFolderLock::OutputFolderLock(std::string path, UniqueFd fd, bool is_held)
    : path_(std::move(path)), fd_(std::move(fd)), is_held_(is_held) {}

// Removed while locked: a process that has opened the file meanwhile notices, and opens the next one.
OutputFolderLock::~OutputFolderLock() {
  if (is_held_ && is_file_at(fd_.get(), path_)) ::unlink(path_.c_str());
}

// The lock, or the process that holds it; null if that is not written yet.
struct OutputFolderLock::Try {
  std::shared_ptr<const OutputFolderLock> lock;
  HolderJson holder;
};

OutputFolderLock::Try OutputFolderLock::try_new_lock(const std::string& folder) {
  const std::string path = folder + "/" + kFile;
  while (true) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    // A file that another user's crash left in a shared folder can still be locked.
    if (!fd && errno == EACCES) fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) {
      throw Error("cannot make the lock file " + path + ": " + errno_text(errno), folder,
                  "give an --output-dir that you may write to, with space on its disk");
    }
    const auto made = [&](bool is_held) {
      return std::shared_ptr<const OutputFolderLock>(new OutputFolderLock(path, std::move(fd), is_held));
    };
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!is_file_at(fd.get(), path)) continue;  // its last holder has removed it
      write_holder(fd.get());
      return {made(true), {}};
    }
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return {nullptr, holder_in(fd.get())};
    log_warning("{}: the file system knows no locks ({}): a second training into it would not be noticed", folder,
                errno_text(errno));
    return {made(false), {}};
  }
}

OutputFolderLock::Try OutputFolderLock::try_lock(const std::string& folder) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const OutputFolderLock>> own;  // this process's, by the folder's path
  create_folders(folder);
  std::error_code problem;
  const auto real = std::filesystem::canonical(folder, problem);
  const std::string name = problem ? folder : real.string();
  const std::lock_guard<std::mutex> guard(mutex);
  if (auto held = own[name].lock()) return {held, {}};
  Try found = try_new_lock(folder);
  own[name] = found.lock;
  return found;
}

std::shared_ptr<const OutputFolderLock> OutputFolderLock::try_take(const std::string& folder, std::string& holder) {
  const Try found = try_lock(folder);
  if (!found.lock) holder = text_of(found.holder);
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
    const HolderJson& holder = found.holder;
    const std::chrono::milliseconds limit =
        patience.value_or(is_on_another_host(holder) ? std::chrono::seconds(120) : std::chrono::seconds(20));
    const bool is_awaited = holder.is_null() || awaited == Awaited::Any || ends_soon(holder);
    const auto waited = std::chrono::steady_clock::now() - began;
    if (!is_awaited || waited > (holder.is_null() ? kUntilWritten : limit)) {
      refuse_held(holder, folder, folder + "/" + kFile);
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace lockstep
