#include "lockstep/base/processor/heap.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <memory>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

bool nothing_is_set(const std::string&) { return false; }

class Heap : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("LOCKSTEP_MALLOC"); }
};

TEST_F(Heap, TellsAProcessToKeepFreedMemoryUnlessTheUserChose) {
  EXPECT_EQ(heap_variables(nothing_is_set).size(), 3U);
  for (const std::string chosen : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    EXPECT_TRUE(heap_variables([&](const std::string& name) { return name == chosen; }).empty()) << chosen;
  }
  ::setenv("LOCKSTEP_MALLOC", "system", 1);
  EXPECT_TRUE(heap_variables(nothing_is_set).empty());
}

TEST_F(Heap, RefusesAnUnknownChoice) {
  ::setenv("LOCKSTEP_MALLOC", "jemalloc", 1);
  EXPECT_THROW(keep_freed_memory(), Error);
  EXPECT_THROW(heap_variables(nothing_is_set), Error);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST_F(Heap, ABlockThatWasFreedIsThereAgainWithoutNewPages) {
  keep_freed_memory();
  constexpr std::size_t kBytes = 64 << 20;
  const auto touch = [] {
    const std::unique_ptr<volatile char[]> block(new volatile char[kBytes]);
    for (std::size_t i = 0; i < kBytes; i += 4096) block[i] = 1;
  };
  touch();
  const long before = page_faults();
  for (int i = 0; i < 5; ++i) touch();
  EXPECT_LT(page_faults() - before, 100);  // a block has 16384 pages
}
#endif

}  // namespace
}  // namespace lockstep
