#include "lockstep/comm/reduce/reduce.h"

#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/reduce/reduce_table.h"

namespace lockstep::shm {
namespace {

struct Choice {
  const ReduceTable* table;
  const char* name;
};

// The widest instructions that the user allows.
std::string widest_allowed() {
  const std::string widest = env_string("LOCKSTEP_ISA").value_or("avx512");
  if (widest != "avx512" && widest != "avx2" && widest != "baseline") {
    throw Error("LOCKSTEP_ISA is \"" + widest + "\"", "environment", "set it to avx512, avx2 or baseline, or unset it");
  }
  return widest;
}

Choice choose() {
  [[maybe_unused]] const std::string widest = widest_allowed();
#if defined(__x86_64__)
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (widest == "avx512" && has_avx512) return {reduce_table_avx512(), "avx512"};
  if (widest != "baseline" && __builtin_cpu_supports("avx2"))
    return {reduce_table_avx2(), "avx2"};  // every processor with AVX2 has F16C
#endif
  return {reduce_table_baseline(), "baseline"};
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

std::size_t element_bytes(Element element) {
  switch (element) {
    case Element::F64:
    case Element::I64:
      return 8;
    case Element::F16:
    case Element::BF16:
      return 2;
    case Element::U8:
      return 1;
    default:
      return 4;
  }
}

void reduce(Element element, Reduction reduction, const std::byte* const* sources, int n_sources,
            std::byte* const* destinations, int n_destinations, std::size_t count) {
  const ReduceLoop loop = (*choice().table)[static_cast<std::size_t>(element)][static_cast<std::size_t>(reduction)];
  loop(sources, n_sources, destinations, n_destinations, count);
}

void require_known_isa() { widest_allowed(); }

const char* reduce_isa() { return choice().name; }

}  // namespace lockstep::shm
