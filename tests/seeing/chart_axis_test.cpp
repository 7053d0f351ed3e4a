// Tests axes with values that a logarithm does not take, such as a time that was measured as 0.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/seeing/chart/chart_axis.h"
#include "lockstep/seeing/chart/chart_sheet.h"

namespace lockstep {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kEndless = std::numeric_limits<double>::infinity();

std::vector<double> tick_values(const ChartAxis& axis) {
  std::vector<double> values;
  for (const ChartTick& tick : axis.ticks()) values.push_back(tick.value);
  return values;
}

TEST(ChartAxis, LogarithmicAxesPassOverWhatIsNotPositive) {
  const std::vector<double> values{0, 20, -3, kNoNumber, 5, kEndless, 20};
  EXPECT_EQ(tick_values(ChartAxis::at_values(values, 0, 100)), (std::vector<double>{5, 20}));
  EXPECT_EQ(tick_values(ChartAxis::decades(values, 0, 100)), (std::vector<double>{1, 10, 100}));
  for (const auto& none : {std::vector<double>{}, std::vector<double>{0, -1, kNoNumber}}) {
    EXPECT_EQ(tick_values(ChartAxis::at_values(none, 0, 100)), std::vector<double>{1});
    EXPECT_EQ(tick_values(ChartAxis::decades(none, 0, 100)), (std::vector<double>{1, 10}));
  }
}

TEST(ChartAxis, SaysWhatHasAPlace) {
  const ChartAxis logarithmic = ChartAxis::decades({1, 10}, 0, 100), linear = ChartAxis::linear({-1, 1}, 0, 100);
  EXPECT_DOUBLE_EQ(logarithmic.at(10), 100);
  EXPECT_TRUE(linear.has_place(0));
  for (const double value : {0.0, -1.0, kNoNumber, kEndless}) EXPECT_FALSE(logarithmic.has_place(value)) << value;
  for (const double value : {kNoNumber, -kEndless}) EXPECT_FALSE(linear.has_place(value)) << value;
}

TEST(ChartSheet, PointsWithoutAPlaceLeaveAGap) {
  Chart chart;
  chart.lines.push_back({"shm", {{1, 10}, {2, 0}, {4, 40}, {8, 80}}, std::nullopt});
  chart.lines.push_back({"gloo", {{0, 10}}, 0});
  const std::string svg = svg_charts({chart}, "");
  EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  const std::size_t path = svg.find("<path d=\"M");
  ASSERT_NE(path, std::string::npos) << svg;
  EXPECT_NE(svg.find('M', svg.find('M', path) + 1), std::string::npos) << "one line, over the gap: " << svg;
  EXPECT_EQ(svg.find("class=\"ring\""), std::string::npos) << svg;
}

}  // namespace
}  // namespace lockstep
