#include "lockstep/base/processor/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>

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
  // Fresh pages, because the heap may return some that were touched before.
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::int64_t before = process_memory().resident;
  volatile char* memory = static_cast<char*>(mapped);
  for (std::int64_t i = 0; i < kBytes; i += 4096) memory[i] = 1;
  EXPECT_GE(process_memory().resident - before, kBytes / 2);
  ::munmap(mapped, kBytes);
}

}  // namespace
}  // namespace lockstep
