#include "lockstep/base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace lockstep {
namespace {

TEST(ProcessMemory, AgreesWithTheKernelsOtherFigures) {
  const ProcessMemory memory = process_memory();
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_GT(memory.resident, 0);
  EXPECT_GE(memory.peak_resident, memory.resident);
  EXPECT_GE(memory.resident, memory.file + memory.shared);
  EXPECT_NEAR(static_cast<double>(memory.peak_resident), 1024.0 * static_cast<double>(usage.ru_maxrss), 8 << 20);
}

TEST(ProcessMemory, SeesAPageThatWasTouched) {
  constexpr std::int64_t kBytes = 64 << 20;
  const std::int64_t before = process_memory().resident;
  const std::unique_ptr<char[]> touched(new char[kBytes]);
  std::memset(touched.get(), 1, kBytes);
  EXPECT_GE(process_memory().resident - before, kBytes / 2) << touched[kBytes - 1];
}

}  // namespace
}  // namespace lockstep
