#include "lockstep/comm/shm/memory/memory_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/kernel_call.h"
#include "lockstep/comm/shm/memory/free_memory.h"

namespace lockstep::shm {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
#ifndef MFD_NOEXEC_SEAL
constexpr unsigned kNoExec = 0x0008U;  // Linux 6.3; older kernels answer EINVAL
#else
constexpr unsigned kNoExec = MFD_NOEXEC_SEAL;
#endif

[[noreturn]] void throw_errno(const std::string& what, int code, const std::string& fix) {
  throw Error(fmt::format("{}: {}", what, errno_text(code)), "shared memory", fix);
}

[[noreturn]] void throw_too_little_memory(std::size_t bytes) {
  throw Error(fmt::format("{} bytes of shared memory do not fit into the {} bytes that are left", bytes,
                          available_memory_bytes()),
              "shared memory", "free memory, raise the container's memory limit, or use fewer or smaller buffers");
}

// Replaces fallocate(2), which some sandboxes do not have: writing a page allocates it, or fails if there is no memory.
// @return  0, or errno
int write_pages(int fd, std::size_t offset, std::size_t bytes) {
  const std::size_t end = offset + bytes;
  for (std::size_t at = offset; at < end; at = (at / page_bytes() + 1) * page_bytes()) {
    char byte = 0;
    const auto place = static_cast<off_t>(at);
    if (::pread(fd, &byte, 1, place) != 1 || ::pwrite(fd, &byte, 1, place) != 1) return errno;
  }
  return 0;
}

std::byte* map_pages(std::size_t bytes, int flags, int fd, std::size_t offset) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    throw_errno(fmt::format("cannot map {} bytes", bytes), errno,
                "raise the limit of the address space (ulimit -v) or free memory");
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

std::shared_ptr<Mapping> Mapping::of_file(int fd, std::size_t bytes, std::size_t offset) {
  return std::shared_ptr<Mapping>(new Mapping(map_pages(bytes, MAP_SHARED, fd, offset), bytes));
}

std::shared_ptr<Mapping> Mapping::anonymous(std::size_t bytes) {
  if (bytes > available_memory_bytes()) throw_too_little_memory(bytes);
  return std::shared_ptr<Mapping>(new Mapping(map_pages(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes));
}

Mapping::~Mapping() { ::munmap(data_, bytes_); }

bool Mapping::make_private(std::size_t offset, std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  void* copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, data_ + offset, bytes);
  if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data_ + offset) != MAP_FAILED) return true;
  ::munmap(copy, bytes);
  return false;
}

UniqueFd create_segment(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max())) throw_too_little_memory(bytes);
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(::memfd_create("lockstep", kFlags | kNoExec));
  if (!fd && errno == EINVAL) fd = UniqueFd(::memfd_create("lockstep", kFlags));
  if (!fd) {
    throw_failed_call("cannot make a memory file", "memfd_create", errno, "shared memory",
                      "raise the limit of open files (ulimit -n) or use another engine");
  }
  // Checked first: the kernel would send SIGXFSZ.
  rlimit files{};
  const bool too_large = ::getrlimit(RLIMIT_FSIZE, &files) == 0 && bytes > files.rlim_cur;
  if (too_large || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    if (too_large) errno = EFBIG;
    throw_errno(fmt::format("cannot size a memory file to {} bytes", bytes), errno,
                "raise the limit of file sizes (ulimit -f), or use smaller buffers");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    throw_errno("cannot seal a memory file", errno, "use another engine: this kernel has no sealing");
  }
  return fd;
}

void reserve_pages(int fd, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  // Checked first: in a cgroup at its limit the kernel may kill instead of answering ENOMEM.
  if (bytes > available_memory_bytes()) throw_too_little_memory(bytes);
  int code = 0;
  do {
    code = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (code == EINTR);
  if (code == ENOSYS || code == EPERM) code = write_pages(fd, offset, bytes);
  if (code == ENOSPC || code == ENOMEM) throw_too_little_memory(bytes);
  if (code != 0) throw_errno(fmt::format("cannot allocate {} bytes of shared memory", bytes), code, "free memory");
}

void check_segment(int fd, std::size_t bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno("fstat of a memory file failed", errno, "report this");
  const bool good =
      S_ISREG(status.st_mode) && status.st_uid == ::geteuid() && static_cast<std::uint64_t>(status.st_size) == bytes;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (good && seals >= 0 && (seals & kSizeSeals) == kSizeSeals) return;
  throw Error(fmt::format("another rank sent a file of {} bytes, not sealed memory of {}", status.st_size, bytes),
              "shared memory", "run the same version of Lockstep on all ranks");
}

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = page_bytes();
  if (bytes > std::numeric_limits<std::size_t>::max() - page) throw_too_little_memory(bytes);
  return (bytes + page - 1) / page * page;
}

}  // namespace lockstep::shm
