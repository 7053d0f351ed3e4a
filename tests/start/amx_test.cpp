#include "lockstep/start/amx.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace lockstep {
namespace {

// What a Sapphire Rapids reports (Intel's Software Developer's Manual, volume 2A, CPUID): AMX-BF16, AMX-TILE and
// AMX-INT8; XCR0 with x87, SSE, AVX, AVX-512, PKRU and both tile states; one palette of 8 tiles of 16 rows of 64 bytes.
AmxLeaves whole() { return {0x20, 1U << 22 | 1U << 24 | 1U << 25, 0x602e7, 1, 8U << 16 | 64, 16}; }

struct Case {
  const char* name;
  AmxLeaves leaves;
  Amx want;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

Case with(const char* name, Amx want, void (*change)(AmxLeaves&)) {
  AmxLeaves leaves = whole();
  change(leaves);
  return {name, leaves, want};
}

class JudgeAmx : public ::testing::TestWithParam<Case> {};

TEST_P(JudgeAmx, TrustsTilesThatAreDescribed) { EXPECT_EQ(judge_amx(GetParam().leaves), GetParam().want); }

INSTANTIATE_TEST_SUITE_P(
    Table, JudgeAmx,
    ::testing::Values(
        with("whole", Amx::Described, [](AmxLeaves&) {}),
        with("without_int8", Amx::Described, [](AmxLeaves& leaves) { leaves.features = 1U << 22 | 1U << 24; }),
        Case{"older_processor", {}, Amx::Absent},
        with("tiles_without_products", Amx::Absent, [](AmxLeaves& leaves) { leaves.features = 1U << 24; }),
        with("products_without_tiles", Amx::Absent, [](AmxLeaves& leaves) { leaves.features = 1U << 22; }),
        with("kernel_without_tiles", Amx::Absent, [](AmxLeaves& leaves) { leaves.enabled = 0x2e7; }),
        with("kernel_with_one_tile_state", Amx::Absent, [](AmxLeaves& leaves) { leaves.enabled = 0x202e7; }),
        with("leaves_end_before_tiles", Amx::Undescribed, [](AmxLeaves& leaves) { leaves.highest_leaf = 0x1c; }),
        with("no_palette", Amx::Undescribed, [](AmxLeaves& leaves) { leaves.highest_palette = 0; }),
        with("no_tiles", Amx::Undescribed, [](AmxLeaves& leaves) { leaves.palette_names = 64; }),
        with("no_bytes_in_a_row", Amx::Undescribed, [](AmxLeaves& leaves) { leaves.palette_names = 8U << 16; }),
        with("no_rows", Amx::Undescribed, [](AmxLeaves& leaves) { leaves.palette_rows = 0; })),
    [](const auto& test) { return test.param.name; });

TEST(AmxOfProcessor, IsAbsentWhereTheKernelListsNone) {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().find("amx_tile") != std::string::npos) GTEST_SKIP() << "this processor has AMX";
  EXPECT_EQ(amx_of_processor(), Amx::Absent);
}

}  // namespace
}  // namespace lockstep
