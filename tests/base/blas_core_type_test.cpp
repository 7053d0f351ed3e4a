#include "lockstep/base/blas_core_type.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

// The kernel's own list of what the processor can do.
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

}  // namespace
}  // namespace lockstep
