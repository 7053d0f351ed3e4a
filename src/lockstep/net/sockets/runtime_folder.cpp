#include "lockstep/net/sockets/runtime_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

// Another user may have made the first ones to keep this user's jobs from starting.
constexpr int kMostFolders = 16;

// Nothing if the path is another user's.
std::optional<std::string> own_folder(const std::string& folder) {
  struct stat status {};
  const bool exists = ::lstat(folder.c_str(), &status) == 0;
  if (!exists || status.st_uid != ::geteuid()) return std::nullopt;
  const std::string fix = "remove it, or set XDG_RUNTIME_DIR to a folder that only you can enter";
  if (!S_ISDIR(status.st_mode)) throw Error(folder + " is not a folder", host_name(), fix);
  if ((status.st_mode & 077) != 0) {
    throw Error(
        fmt::format("folder {} has mode {:04o}; others could reach the job's store", folder, status.st_mode & 07777),
        host_name(), fix);
  }
  return folder;
}

bool make_folder(const std::string& folder, const std::string& fix) {
  if (::mkdir(folder.c_str(), 0700) == 0) return true;
  if (errno == EEXIST) return false;
  throw Error(fmt::format("cannot create folder {}: {}", folder, errno_text(errno)), host_name(), fix);
}

std::string shared_place_folder(const std::string& place) {
  const std::string first = fmt::format("{}/lockstep-{}", place, ::geteuid());
  const auto candidate = [&](int number) { return number == 0 ? first : fmt::format("{}-{}", first, number); };
  // One that is there comes first: all processes of this user must take the same, whatever strangers do meanwhile.
  for (int number = 0; number < kMostFolders; ++number) {
    if (auto folder = own_folder(candidate(number))) return *folder;
  }
  for (int number = 0; number < kMostFolders; ++number) {
    const std::string folder = candidate(number);
    make_folder(folder,
                "set TMPDIR to a folder that you can write to, or XDG_RUNTIME_DIR to one that only you can enter");
    if (!own_folder(folder)) continue;
    if (number > 0) log_warning("{} belongs to another user; taking {}", first, folder);
    return folder;
  }
  throw Error(fmt::format("{}, and {} more names, belong to another user", first, kMostFolders - 1), host_name(),
              "set XDG_RUNTIME_DIR to a folder that only you can enter");
}

}  // namespace

std::string private_runtime_folder() {
  const auto runtime = env_string("XDG_RUNTIME_DIR");
  if (!runtime || ::access(runtime->c_str(), W_OK) != 0) {
    return shared_place_folder(env_string("TMPDIR").value_or("/tmp"));
  }
  const std::string folder = *runtime + "/lockstep";
  make_folder(folder, "set XDG_RUNTIME_DIR to a folder that only you can enter");
  if (own_folder(folder)) return folder;
  throw Error(folder + " belongs to another user; others could reach the job's store", host_name(),
              "remove it, or set XDG_RUNTIME_DIR to a folder that only you can enter");
}

}  // namespace lockstep
