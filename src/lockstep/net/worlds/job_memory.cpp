#include "lockstep/net/worlds/job_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep {
namespace {

constexpr const char* kJobMemoryName = "lockstep-job";

// Whoever starts programs may close what they inherit, and the number then means something else, such as memory of an
// engine.
bool is_job_memory(int file) {
  std::array<char, 64> target{};
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const ssize_t bytes = ::readlink(path.c_str(), target.data(), target.size());
  if (bytes < 0 ||
      std::string(target.data(), static_cast<std::size_t>(bytes)).find(kJobMemoryName) == std::string::npos) {
    return false;
  }
  struct stat status {};
  return ::fcntl(file, F_GET_SEALS) == F_SEAL_SHRINK && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid();
}

}  // namespace

UniqueFd make_job_memory() {
  UniqueFd file(::memfd_create(kJobMemoryName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // A rank that shrank it would end the others by SIGBUS.
  if (file && ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) file.reset();
  return file;
}

int job_memory_of_rank() {
  const auto number = env_int(kJobMemoryVariable);
  if (!number || *number <= STDERR_FILENO) return -1;
  const int file = static_cast<int>(*number);
  if (!is_job_memory(file) || ::fcntl(file, F_SETFD, FD_CLOEXEC) != 0) return -1;
  return file;
}

std::optional<std::uint64_t> steps_in_memory(int file) {
  if (file < 0) return std::nullopt;
  std::array<std::uint64_t, 3> values{};
  static_assert(sizeof(JobMemoryHeader) == sizeof(values));
  if (::pread(file, values.data(), sizeof(values), 0) != static_cast<ssize_t>(sizeof(values))) return std::nullopt;
  if (values[0] != JobMemoryHeader::kLayout || values[1] == 0) return std::nullopt;
  return values[2];
}

}  // namespace lockstep
