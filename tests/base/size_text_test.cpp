#include "lockstep/base/text/size_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(SizeText, IsDecimalForFilesAndBinaryForMemory) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(999), "999 bytes");
  EXPECT_EQ(size_text(4200), "4.2 kB");
  EXPECT_EQ(size_text(17'500'000), "17.5 MB");
  EXPECT_EQ(size_text(2'100'000'000), "2.1 GB");
  EXPECT_EQ(memory_text(1536), "1.5 KiB");
  EXPECT_EQ(memory_text(3U << 20), "3.0 MiB");
  EXPECT_EQ(memory_text(std::uint64_t{5} << 29), "2.50 GiB");
  EXPECT_EQ(memory_text(std::uint64_t{5} << 39), "2.50 TiB");
  EXPECT_EQ(memory_text(std::uint64_t{3} << 50), "3.00 PiB");
}

}  // namespace
}  // namespace lockstep
