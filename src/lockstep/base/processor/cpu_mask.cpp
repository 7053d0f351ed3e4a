#include "lockstep/base/processor/cpu_mask.h"

#include <algorithm>
#include <cerrno>

namespace lockstep {
namespace {

constexpr std::size_t kMostSets = 1024;  // a million cores

cpu_set_t empty_set() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return set;
}

}  // namespace

CpuMask::CpuMask(const std::vector<int>& cores) {
  const int last = cores.empty() ? 0 : *std::max_element(cores.begin(), cores.end());
  sets_.assign(static_cast<std::size_t>(last) / CPU_SETSIZE + 1, empty_set());
  for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), bytes(), sets_.data());
}

// The kernel answers EINVAL until the set has room for every core that the machine may have.
std::optional<CpuMask> CpuMask::of(pid_t process, Question ask) {
  CpuMask mask;
  for (std::size_t count = 1; count <= kMostSets; count *= 2) {
    mask.sets_.assign(count, empty_set());
    if (ask(process, mask.bytes(), mask.sets_.data()) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return std::nullopt;
}

std::vector<int> CpuMask::cores() const {
  std::vector<int> numbers;
  for (std::size_t core = 0; core < sets_.size() * CPU_SETSIZE; ++core) {
    if (CPU_ISSET_S(core, bytes(), sets_.data())) numbers.push_back(static_cast<int>(core));
  }
  return numbers;
}

bool CpuMask::bind_this_thread() const noexcept { return ::sched_setaffinity(0, bytes(), sets_.data()) == 0; }

}  // namespace lockstep
