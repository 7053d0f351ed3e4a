#include "lockstep/base/zero_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {
namespace {

constexpr std::size_t kZeroedBytes = 1 << 20;

// Neither end is at the end of a page.
void expect_zeros_within(unsigned char* memory) {
  std::memset(memory, 7, kZeroedBytes);
  zero_and_give_back(memory + 100, kZeroedBytes - 150);
  EXPECT_TRUE(is_zero(memory + 100, kZeroedBytes - 150));
  EXPECT_FALSE(is_zero(memory + 99, 2));
  EXPECT_EQ(memory[99], 7);
  EXPECT_EQ(memory[kZeroedBytes - 50], 7);
}

TEST(ZeroPages, OfThisProcessAreZero) {
  std::vector<unsigned char> memory(kZeroedBytes);
  expect_zeros_within(memory.data());
  zero_and_give_back(memory.data(), 10);
  EXPECT_TRUE(is_zero(memory.data(), 10));
  EXPECT_TRUE(is_zero(memory.data(), 0));
}

TEST(ZeroPages, OfASharedMappingAreGivenBackToo) {
  const UniqueFd file(::memfd_create("zero_pages_test", MFD_CLOEXEC));
  ASSERT_GE(file.get(), 0);
  ASSERT_EQ(::ftruncate(file.get(), kZeroedBytes), 0);
  void* const memory = ::mmap(nullptr, kZeroedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 7, kZeroedBytes);
  zero_and_give_back(memory, kZeroedBytes);
  struct stat now {};
  ASSERT_EQ(::fstat(file.get(), &now), 0);  // before anybody reads, which takes pages again
  EXPECT_LT(now.st_blocks * 512, static_cast<long>(kZeroedBytes) / 4) << "bytes that the file still takes";
  expect_zeros_within(static_cast<unsigned char*>(memory));
  ::munmap(memory, kZeroedBytes);
}

}  // namespace
}  // namespace lockstep
