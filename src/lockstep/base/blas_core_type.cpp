#include "lockstep/base/blas_core_type.h"

namespace lockstep {

std::string blas_core_type() {
#if defined(__x86_64__)
  if (!__builtin_cpu_is("intel")) return "";
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return "";
}

}  // namespace lockstep
