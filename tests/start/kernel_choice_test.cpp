#include "lockstep/start/kernel_choice.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

// The kernel's own list of the processor's features.
bool cpuinfo_has(const std::string& word) {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  return text.str().find(word) != std::string::npos;
}

TEST(BlasCoreType, AgreesWithWhatTheKernelSaysOfTheProcessor) {
  const bool intel = cpuinfo_has("GenuineIntel");
  if (!intel) {
    EXPECT_EQ(blas_core_type(), "");
  } else if (cpuinfo_has("avx512bw")) {
    EXPECT_EQ(blas_core_type(), "SkylakeX");
  } else if (cpuinfo_has("avx2")) {
    EXPECT_EQ(blas_core_type(), "Haswell");
  }
}

TEST(SlowKernels, AreThoseOfBeforeTheProcessor) {
  EXPECT_EQ(slowdown_of("Prescott", "AVX-512"), 4);
  EXPECT_EQ(slowdown_of("Barcelona", "AVX2"), 2);
  EXPECT_EQ(slowdown_of("Prescott", ""), 1) << "nothing better fits";
  for (const char* kernels : {"", "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "one to come"}) {
    EXPECT_EQ(slowdown_of(kernels, "AVX-512"), 1) << kernels;
  }
}

TEST(WidestVectors, AgreeWithWhatTheKernelSaysOfTheProcessor) {
  const std::string want = cpuinfo_has("avx512bw") ? "AVX-512" : cpuinfo_has("avx2") ? "AVX2" : "";
  EXPECT_EQ(widest_vectors(), want);
}

}  // namespace
}  // namespace lockstep
