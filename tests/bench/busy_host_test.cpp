#include "bench/plan/busy_host.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(BusyHost, IsReportedIfTheMeasurementGetsTooFewCores) {
  EXPECT_EQ(busy_host_warning(0.2, 2, 2), "");
  EXPECT_EQ(busy_host_warning(3, 4, 8), "");
  EXPECT_EQ(busy_host_warning(-1, 8, 2), "") << "the load is not known";
  const std::string text = busy_host_warning(1.94, 2, 2);
  EXPECT_NE(text.find("other programs wanted 1.9 of this host's 2 core(s)"), std::string::npos) << text;
  EXPECT_NE(text.find("what is measured wants 2:"), std::string::npos) << text;
}

TEST(BusyHost, IsCrowdedByMoreRanksThanCores) {
  EXPECT_EQ(crowded_host_warning(2, 2, 4), "");
  EXPECT_NE(crowded_host_warning(3, 2, 4).find("3 rank(s) with 2 thread(s) share the 4 core(s)"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
