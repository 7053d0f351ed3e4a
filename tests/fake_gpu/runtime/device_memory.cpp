// Device memory. "Dereferencing a device pointer on the host" is undefined (CUDA C++ Programming Guide, "Device
// Memory"); on a GPU it is a segmentation fault, as here. cudaMalloc's memory "is suitably aligned for any kind of
// variable" and "not cleared" (CUDA Runtime API, cudaMalloc).
#include "tests/fake_gpu/runtime/device_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/settings.h"

namespace fake_gpu {
namespace {

constexpr std::size_t kSpan = std::size_t{1} << 36;  // addresses of a device
constexpr std::size_t kDevices = 16;
constexpr std::size_t kPage = 4096;

struct Arena {
  char* seen;   // what programs get; never accessible
  char* bytes;  // what runs on streams uses
};

struct DeviceHeap {
  std::map<std::size_t, std::size_t> used;  // offset, bytes with the guard page behind them
  std::size_t bytes = 0;
};

std::mutex memory_mutex;
DeviceHeap heaps[kDevices];
struct sigaction action_before;

void report_host_access(int signal, siginfo_t* info, void* context) {
  if (device_of(info->si_addr) >= 0) {
    constexpr char kText[] =
        "[fake GPU] the host touched an address of device memory, which only a copy or a kernel may do\n";
    [[maybe_unused]] const auto written = ::write(2, kText, sizeof kText - 1);
  }
  // As if this handler had not been there.
  if ((action_before.sa_flags & SA_SIGINFO) != 0 && action_before.sa_sigaction != nullptr) {
    action_before.sa_sigaction(signal, info, context);
  } else {
    ::sigaction(signal, &action_before, nullptr);
  }
}

Arena make_arena() {
  constexpr std::size_t kAll = 2 * kSpan * kDevices;
  void* const all = ::mmap(nullptr, kAll, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) {
    std::fprintf(stderr, "[fake GPU] no addresses for device memory: is there a limit (ulimit -v)?\n");
    return {nullptr, nullptr};
  }
  struct sigaction action = {};
  action.sa_sigaction = &report_host_access;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, &action_before);
  return {static_cast<char*>(all), static_cast<char*>(all) + kSpan * kDevices};
}

const Arena& arena() {
  static const Arena made = make_arena();
  return made;
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The first gap that is large enough.
std::size_t gap_in(const DeviceHeap& heap, std::size_t bytes) {
  std::size_t begin = 0;
  for (const auto& [offset, length] : heap.used) {
    if (offset - begin >= bytes) break;
    begin = offset + length;
  }
  return begin;
}

}  // namespace

void* take_device_memory(int device, std::size_t bytes) {
  if (arena().seen == nullptr) return nullptr;
  const long number = ++counters().allocations;
  const std::size_t length = whole_pages(bytes == 0 ? 1 : bytes);
  DeviceHeap& heap = heaps[static_cast<std::size_t>(device)];
  const std::lock_guard<std::mutex> lock(memory_mutex);
  // All from that one on: LibTorch's allocator empties its caches and asks once more.
  const long last = settings().out_of_memory_at;
  if ((last > 0 && number >= last) || heap.bytes + length > all_device_bytes()) return nullptr;
  const std::size_t guarded = length + kPage;  // a kernel that runs over the end is a segmentation fault, too
  const std::size_t offset = gap_in(heap, guarded);
  if (offset + guarded > kSpan) return nullptr;
  char* const view = arena().bytes + static_cast<std::size_t>(device) * kSpan + offset;
  if (::mprotect(view, length, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(view, 0xFF, length);
  heap.used[offset] = guarded;
  heap.bytes += length;
  const long now = counters().bytes += static_cast<long>(length);
  if (now > counters().peak_bytes) counters().peak_bytes = now;
  return arena().seen + (view - arena().bytes);
}

bool give_device_memory(void* pointer) {
  const int device = device_of(pointer);
  if (device < 0) return false;
  const std::size_t offset = static_cast<std::size_t>(static_cast<char*>(pointer) - arena().seen) % kSpan;
  DeviceHeap& heap = heaps[static_cast<std::size_t>(device)];
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const auto found = heap.used.find(offset);
  if (found == heap.used.end()) return false;
  const std::size_t length = found->second - kPage;
  void* const view = host_view(pointer);
  ::madvise(view, length, MADV_DONTNEED);
  ::mprotect(view, length, PROT_NONE);
  heap.used.erase(found);
  heap.bytes -= length;
  counters().bytes -= static_cast<long>(length);
  return true;
}

int device_of(const void* pointer) {
  const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(arena().seen);
  return offset < kSpan * kDevices ? static_cast<int>(offset / kSpan) : -1;
}

void* host_view(const void* pointer) {
  char* const bytes = static_cast<char*>(const_cast<void*>(pointer));
  return device_of(pointer) < 0 ? bytes : bytes + (arena().bytes - arena().seen);
}

std::size_t free_device_bytes(int device) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  return all_device_bytes() - heaps[static_cast<std::size_t>(device)].bytes;
}

std::size_t all_device_bytes() { return static_cast<std::size_t>(settings().memory_mb) << 20; }

}  // namespace fake_gpu
