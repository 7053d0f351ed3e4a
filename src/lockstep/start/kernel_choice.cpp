#include "lockstep/start/kernel_choice.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/instruction_set.h"
#include "lockstep/start/amx.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {
namespace {

constexpr const char* kAvx512 = "AVX-512";
constexpr const char* kAvx2 = "AVX2";

// OpenBLAS's kernels from before AVX2. The list is complete: kernels of later processors are wider.
constexpr std::array kOldKernels{"Prescott",    "Core2",     "Penryn",       "Dunnington",   "Nehalem",   "Atom",
                                 "Nano",        "Opteron",   "Athlon",       "Opteron_SSE3", "Barcelona", "Bobcat",
                                 "Sandybridge", "Bulldozer", "Piledriver",   "Steamroller",  "Katmai",    "Coppermine",
                                 "Northwood",   "Banias",    "Opteron(SSE3)"};

bool environment_has(const std::string& name) { return env_string(name).has_value(); }

void warn_of_slow_kernels() {
  if (environment_has("OPENBLAS_CORETYPE")) return;
  const std::string kernels = blas_kernels();
  const std::string vectors = widest_vectors();
  const int factor = slowdown_of(kernels, vectors);
  if (factor == 1) return;
  log_warning(
      "OpenBLAS does not know this processor, which has {}, and uses its {} kernels: matrix products take up to "
      "{} times as long as they need to. It read its environment before Lockstep could help. Set it before the program "
      "starts: export OPENBLAS_CORETYPE={}",
      vectors, kernels, factor, vectors == kAvx512 ? "SkylakeX" : "Haswell");
}

}  // namespace

std::string widest_vectors() {
  const InstructionSet widest = processor_instruction_set();
  return widest == InstructionSet::Avx512 ? kAvx512 : widest == InstructionSet::Avx2 ? kAvx2 : "";
}

std::string blas_core_type() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_is("intel")) return "";
#endif
  const std::string vectors = widest_vectors();
  return vectors == kAvx512 ? "SkylakeX" : vectors == kAvx2 ? "Haswell" : "";
}

std::string blas_kernels() {
  auto* const name = reinterpret_cast<char* (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? "" : name();
}

int slowdown_of(const std::string& kernels, const std::string& vectors) {
  if (std::find(kOldKernels.begin(), kOldKernels.end(), kernels) == kOldKernels.end()) return 1;
  return vectors == kAvx512 ? 4 : vectors == kAvx2 ? 2 : 1;
}

void check_kernels() {
  static std::atomic<bool> looked{false};
  if (looked.exchange(true)) return;
  if (env_string("RANK").value_or("0") == "0") report_withheld_amx();
  for (const auto& [name, value] : onednn_variables(amx_of_processor(), environment_has)) {
    ::setenv(name.c_str(), value.c_str(), 0);
  }
  warn_of_slow_kernels();
}

void report_withheld_amx() {
  if (!is_first_to_withhold_amx()) return;
  log_warning(
      "This processor offers AMX, but its CPUID leaf 1Dh does not describe the tiles, as in virtual machines whose "
      "hypervisor leaves that leaf out. oneDNN would end every product in bf16 with SIGILL. Lockstep keeps it from AMX "
      "by {}=AVX512_CORE_BF16; set that variable yourself to choose",
      kOnednnVariables[0]);
}

}  // namespace lockstep
