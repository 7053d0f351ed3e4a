#include "tests/fake_gpu/runtime/counters.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/fake_gpu/runtime/context.h"
#include "tests/fake_gpu/runtime/settings.h"

namespace fake_gpu {
namespace {

struct NamedCounter {
  const char* name;
  std::atomic<long> Counters::*value;
};

constexpr NamedCounter kNamedCounters[] = {
    {"host_waits", &Counters::host_waits},
    {"queries", &Counters::queries},
    {"launches", &Counters::launches},
    {"copies", &Counters::copies},
    {"events", &Counters::events},
    {"stream_waits", &Counters::stream_waits},
    {"allocations", &Counters::allocations},
    {"bytes", &Counters::bytes},
    {"peak_bytes", &Counters::peak_bytes},
    {"pinned_bytes", &Counters::pinned_bytes},
    {"nccl_calls", &Counters::nccl_calls},
    {"nccl_launches", &Counters::nccl_launches},
    {"communicators", &Counters::communicators},
    {"nccl_ends", &Counters::nccl_ends},
};

// One line, written at once: ranks share the standard error stream.
struct ReportAtExit {
  ~ReportAtExit() {
    if (!settings().report || context_mask() == 0) return;
    std::string line = "[fake GPU] process " + std::to_string(::getpid()) + ":";
    for (const NamedCounter& counter : kNamedCounters) {
      line += std::string(" ") + counter.name + "=" + std::to_string((counters().*counter.value).load());
    }
    line += " contexts=" + std::to_string(__builtin_popcount(context_mask())) + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
};
const ReportAtExit report_at_exit;

}  // namespace

Counters& counters() {
  static auto* const all = new Counters;
  return *all;
}

}  // namespace fake_gpu

/// The value of a counter by its name; of "contexts", how many devices have one; -1 for another name.
extern "C" __attribute__((visibility("default"))) long fake_gpu_counter(const char* name) {
  if (std::strcmp(name, "contexts") == 0) return __builtin_popcount(fake_gpu::context_mask());
  for (const auto& counter : fake_gpu::kNamedCounters) {
    if (std::strcmp(name, counter.name) == 0) return (fake_gpu::counters().*counter.value).load();
  }
  return -1;
}
