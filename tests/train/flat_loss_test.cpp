#include "lockstep/train/checks/flat_loss.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

std::string line_for(const std::vector<double>& losses) {
  std::vector<LogEntry> history;
  for (const double loss : losses) {
    history.push_back({static_cast<std::int64_t>(history.size()), {{"loss", loss}}});
    history.push_back({static_cast<std::int64_t>(history.size()), {{"eval_loss", 0.0}}});
  }
  return flat_loss_line(history, 5e-5);
}

TEST(FlatLoss, IsNamedWithBothMeansAndTheLearningRate) {
  const std::string line = line_for({1.94, 1.96, 1.9, 1.95, 1.97, 1.93});
  EXPECT_NE(line.find("1.95 on average in the first third of the log, and 1.95 in the last"), std::string::npos)
      << line;
  EXPECT_NE(line.find("learning rate (now 5e-05)"), std::string::npos) << line;
  EXPECT_NE(line_for({1, 1, 1, 2, 2, 2}), "") << "a loss that rises";
}

TEST(FlatLoss, IsNoneThatFallsOrIsTooShortToJudge) {
  EXPECT_EQ(line_for({2, 2, 1.9, 1.8, 1.9, 1.9}), "");
  EXPECT_EQ(line_for({2, 2, 2, 2, 2}), "");
  EXPECT_EQ(line_for({}), "");
  EXPECT_EQ(line_for({-1, -1, -1.1, -1.1, -1.2, -1.2}), "") << "a loss below zero";
}

TEST(FlatLoss, LeavesOutWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(line_for({2, 2, nan, 2, nan, 2, nan}), "") << "four are too few";
  EXPECT_NE(line_for({2, 2, nan, 2, 2, 2, 2, nan}), "");
}

}  // namespace
}  // namespace lockstep
