#include "lockstep/net/sockets/runtime_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {

std::string private_runtime_folder() {
  const auto runtime = env_string("XDG_RUNTIME_DIR");
  const bool use_runtime = runtime && ::access(runtime->c_str(), W_OK) == 0;
  const std::string folder = use_runtime
                                 ? *runtime + "/lockstep"
                                 : fmt::format("{}/lockstep-{}", env_string("TMPDIR").value_or("/tmp"), ::geteuid());
  const std::string fix = "remove it, or set XDG_RUNTIME_DIR to a folder that only you can enter";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(fmt::format("cannot create folder {}: {}", folder, errno_text(errno)), host_name(),
                use_runtime
                    ? "set XDG_RUNTIME_DIR to a folder that only you can enter"
                    : "set TMPDIR to a folder that you can write to, or XDG_RUNTIME_DIR to one that only you can "
                      "enter");
  }
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw Error(folder + " is no folder", host_name(), fix);
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    throw Error(fmt::format("folder {} belongs to user {} and has mode {:04o}; others could reach the job's store",
                            folder, status.st_uid, status.st_mode & 07777),
                host_name(), fix);
  }
  return folder;
}

}  // namespace lockstep
