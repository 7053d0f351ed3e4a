#include "lockstep/base/processor/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows it.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

InstructionSet widest_allowed() {
  const std::string name = env_string("LOCKSTEP_ISA").value_or("avx512");
  if (name == "avx512") return InstructionSet::Avx512;
  if (name == "avx2") return InstructionSet::Avx2;
  if (name == "baseline") return InstructionSet::Baseline;
  throw Error("LOCKSTEP_ISA is \"" + name + "\"", "environment", "set it to avx512, avx2 or baseline, or unset it");
}

}  // namespace

InstructionSet processor_instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();  // this may run before every constructor
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return InstructionSet::Baseline;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? InstructionSet::Avx512 : InstructionSet::Avx2;
#else
  return InstructionSet::Baseline;
#endif
}

InstructionSet widest_instruction_set() {
  static const InstructionSet widest = std::min(processor_instruction_set(), widest_allowed());
  return widest;
}

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet each : {InstructionSet::Baseline, InstructionSet::Avx2, InstructionSet::Avx512}) {
    if (each <= widest_instruction_set()) sets.push_back(each);
  }
  return sets;
}

void require_known_instruction_set() { widest_allowed(); }

}  // namespace lockstep
