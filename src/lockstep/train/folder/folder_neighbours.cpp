#include "lockstep/train/folder/folder_neighbours.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/train/folder/folder_holder.h"
#include "lockstep/train/folder/folder_presence.h"
#include "lockstep/train/folder/output_folder_lock.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_other(const FolderHolder& holder) {
  const bool is_this_process = holder.pid == ::getpid() && !holder.is_on_another_host();
  return !is_this_process && !holder.is_of_own_launcher();
}

// The process that holds a lock file. @param how  the weakest lock that its holders do not allow
std::optional<FolderHolder> holder_of(const fs::path& file, int how) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::flock(fd.get(), how | LOCK_NB) == 0 || errno != EWOULDBLOCK) return std::nullopt;
  const std::vector<FolderHolder> holders = holders_in(fd.get());
  for (const FolderHolder& each : holders) {
    if (!is_other(each)) return std::nullopt;
  }
  for (const FolderHolder& each : holders) {
    if (!each.has_ended()) return each;
  }
  return std::nullopt;
}

std::optional<FolderHolder> holder_of(const fs::path& folder) {
  auto holder = holder_of(folder / OutputFolderLock::kFile, LOCK_SH);
  return holder ? holder : holder_of(folder / FolderPresence::kFile, LOCK_EX);
}

[[noreturn]] void refuse_neighbour(const FolderHolder& holder, const std::string& folder, const fs::path& other) {
  throw_caused(Error("another training writes into " + other.string() + ", " + holder.text() +
                         ": the folder of one must not be in that of the other",
                     folder, "give another --output-dir, or end that training, or wait until it has ended"),
               FailureCause{FailureCause::Kind::Usage, -1});
}

}  // namespace

void require_no_training_around(const std::string& folder) {
  std::error_code problem;
  const fs::path real = fs::weakly_canonical(fs::absolute(folder, problem), problem);
  if (problem) return;
  for (fs::path inside = real, around = real.parent_path(); around != inside;
       inside = around, around = around.parent_path()) {
    if (const auto holder = holder_of(around)) refuse_neighbour(*holder, folder, around);
  }
  for (fs::directory_iterator entry(real, problem), end; !problem && entry != end; entry.increment(problem)) {
    const bool is_checkpoint = entry->path().filename().string().rfind("checkpoint-", 0) == 0;
    if (!is_checkpoint) continue;
    if (const auto holder = holder_of(entry->path())) refuse_neighbour(*holder, folder, entry->path());
  }
}

}  // namespace lockstep
