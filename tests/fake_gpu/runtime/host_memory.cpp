#include "tests/fake_gpu/runtime/host_memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/fake_gpu/runtime/counters.h"

namespace fake_gpu {
namespace {

struct PinnedRange {
  std::size_t bytes;
  bool taken_here;
};

std::mutex pinned_mutex;

std::map<std::uintptr_t, PinnedRange>& pinned_ranges() {
  static auto* const ranges = new std::map<std::uintptr_t, PinnedRange>;
  return *ranges;
}

void add_range(void* pointer, std::size_t bytes, bool taken_here) {
  const std::lock_guard<std::mutex> lock(pinned_mutex);
  pinned_ranges()[reinterpret_cast<std::uintptr_t>(pointer)] = {bytes, taken_here};
  counters().pinned_bytes += static_cast<long>(bytes);
}

bool remove_range(void* pointer, bool taken_here) {
  const std::lock_guard<std::mutex> lock(pinned_mutex);
  const auto found = pinned_ranges().find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == pinned_ranges().end() || found->second.taken_here != taken_here) return false;
  counters().pinned_bytes -= static_cast<long>(found->second.bytes);
  pinned_ranges().erase(found);
  return true;
}

}  // namespace

void* take_pinned_memory(std::size_t bytes) {
  void* pointer = nullptr;
  if (::posix_memalign(&pointer, 4096, bytes == 0 ? 1 : bytes) != 0) return nullptr;
  std::memset(pointer, 0xFF, bytes);
  add_range(pointer, bytes, true);
  return pointer;
}

void register_pinned(void* pointer, std::size_t bytes) { add_range(pointer, bytes, false); }

bool unregister_pinned(void* pointer) { return remove_range(pointer, false); }

bool give_pinned_memory(void* pointer) {
  if (!remove_range(pointer, true)) return false;
  std::free(pointer);
  return true;
}

bool is_pinned(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard<std::mutex> lock(pinned_mutex);
  auto next = pinned_ranges().upper_bound(address);
  if (next == pinned_ranges().begin()) return false;
  --next;
  return address < next->first + next->second.bytes;
}

}  // namespace fake_gpu
