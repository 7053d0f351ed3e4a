#include "lockstep/base/processor/heap.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <limits>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::array kVariablesOfMalloc{"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"};
constexpr const char* kHeapSwitch = "LOCKSTEP_MALLOC";

// 4 GiB: no block that a step frees at the top of the heap is larger.
constexpr const char* kKeptBytes = "4294967296";

bool user_chose(const std::function<bool(const std::string&)>& is_set) {
  const std::string choice = env_string(kHeapSwitch).value_or("keep");
  if (choice != "keep" && choice != "system") {
    throw Error(std::string(kHeapSwitch) + " is \"" + choice + "\"", "environment",
                "set it to keep (the default) or system (malloc as it is)");
  }
  return choice == "system" || std::any_of(kVariablesOfMalloc.begin(), kVariablesOfMalloc.end(), is_set);
}

}  // namespace

void keep_freed_memory() {
  if (user_chose([](const std::string& name) { return env_string(name).has_value(); })) return;
#ifdef __GLIBC__
  // mallopt takes an int, so at most 2 GiB.
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  ::mallopt(M_MMAP_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

void release_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

std::vector<std::pair<std::string, std::string>> heap_variables(const std::function<bool(const std::string&)>& is_set) {
  if (user_chose(is_set)) return {};
  return {{"MALLOC_TRIM_THRESHOLD_", kKeptBytes},
          {"MALLOC_MMAP_THRESHOLD_", kKeptBytes},
          {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
}

}  // namespace lockstep
