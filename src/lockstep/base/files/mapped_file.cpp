#include "lockstep/base/files/mapped_file.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

struct MappedFile::Guard {
  std::atomic<std::uintptr_t> begin{0};  // 0: guards nothing now
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> has_hole{false};
  int protection = PROT_READ;
  const char* path = "";
  int file = -1;
  bool is_free = false;   // guarded by the mutex of the list
  Guard* next = nullptr;  // constant once it is in the list
};

namespace {

// What the handler reads: a list that only grows, so that it needs no lock.
std::atomic<MappedFile::Guard*> first_guard{nullptr};
std::mutex guards_mutex;
struct sigaction handler_before {};

void print_line(const char* path) {
  const char* const parts[] = {"lockstep: ", path,
                               ": a part of the file cannot be read: it was truncated while it was in use, or its disk "
                               "failed; the part reads as zeros\n"};
  for (const char* part : parts) {
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) return;
  }
}

// Async-signal-safe: atomics and system calls alone.
bool fill_hole(std::uintptr_t address) {
  for (MappedFile::Guard* guard = first_guard.load(std::memory_order_acquire); guard != nullptr; guard = guard->next) {
    const std::uintptr_t begin = guard->begin.load(std::memory_order_acquire);
    const std::uintptr_t end = guard->end.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= end) continue;
    const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
    const std::size_t bytes = end - reinterpret_cast<std::uintptr_t>(page);
    constexpr int kZeros = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (::mmap(page, bytes, guard->protection, kZeros, -1, 0) == MAP_FAILED) return false;
    if (!guard->has_hole.exchange(true)) print_line(guard->path);
    return true;
  }
  return false;
}

void pass_on(int number, siginfo_t* info, void* context) {
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) return handler_before.sa_sigaction(number, info, context);
  if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    return handler_before.sa_handler(number);
  }
  // The access is repeated after the return, and ends the process. A signal that somebody sent is sent again.
  ::signal(number, SIG_DFL);
  if (info->si_code <= 0) ::raise(number);
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int error_before = errno;
  const bool is_filled = info->si_code == BUS_ADRERR && fill_hole(reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = error_before;
  if (!is_filled) pass_on(number, info, context);
}

void set_handler() {
  static const bool is_set = [] {
    struct sigaction ours {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    ::sigemptyset(&ours.sa_mask);
    return ::sigaction(SIGBUS, &ours, &handler_before) == 0;
  }();
  static_cast<void>(is_set);
}

MappedFile::Guard* take_guard() {
  set_handler();
  const std::lock_guard<std::mutex> lock(guards_mutex);
  for (auto* guard = first_guard.load(std::memory_order_relaxed); guard != nullptr; guard = guard->next) {
    if (guard->is_free) {
      guard->is_free = false;
      return guard;
    }
  }
  auto* const guard = new MappedFile::Guard;
  guard->next = first_guard.load(std::memory_order_relaxed);
  first_guard.store(guard, std::memory_order_release);
  return guard;
}

void require_whole_file(const MappedFile::Guard& guard, std::size_t bytes) {
  struct stat status {};
  const bool is_known = ::fstat(guard.file, &status) == 0;
  constexpr const char* kFix = "start again; to change a file in use, write a new one and rename it over the old one";
  if (is_known && static_cast<std::size_t>(status.st_size) < bytes) {
    throw Error(fmt::format("the file was truncated from {} to {} bytes while it was in use", bytes, status.st_size),
                guard.path, kFix);
  }
  if (!guard.has_hole) return;
  throw Error("a part of the file could not be read: it was truncated for a while, or its disk failed", guard.path,
              kFix);
}

void give_back(MappedFile::Guard* guard) {
  guard->begin.store(0, std::memory_order_release);
  const std::lock_guard<std::mutex> lock(guards_mutex);
  guard->is_free = true;
}

}  // namespace

MappedFile::MappedFile(UniqueFd fd, std::size_t bytes, Access access, const std::string& path)
    : fd_(std::move(fd)), path_(path), size_(bytes) {
  const int protection = access == Access::ReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const data = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_NORESERVE, fd_.get(), 0);
  if (data == MAP_FAILED) {
    throw Error("cannot map " + path + ": " + errno_text(errno), path,
                "check that the path is that of a file, and that you may read it");
  }
  data_ = static_cast<char*>(data);
  guard_ = take_guard();
  guard_->has_hole = false;
  guard_->protection = protection;
  guard_->path = path_.c_str();
  guard_->file = fd_.get();
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  guard_->end.store(begin + bytes, std::memory_order_release);
  guard_->begin.store(begin, std::memory_order_release);
}

MappedFile::~MappedFile() {
  give_back(guard_);
  ::munmap(data_, size_);
}

void MappedFile::expect_sequence(bool in_sequence) const {
  ::madvise(data_, size_, in_sequence ? MADV_SEQUENTIAL : MADV_NORMAL);
}

void MappedFile::require_whole() const { require_whole_file(*guard_, size_); }

void MappedFile::require_all_whole() {
  const std::lock_guard<std::mutex> lock(guards_mutex);  // so that none is closed meanwhile
  for (auto* guard = first_guard.load(std::memory_order_relaxed); guard != nullptr; guard = guard->next) {
    const std::uintptr_t begin = guard->begin.load(std::memory_order_acquire);
    if (!guard->is_free && begin != 0) require_whole_file(*guard, guard->end - begin);
  }
}

}  // namespace lockstep
