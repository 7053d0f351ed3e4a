#include "lockstep/train/log_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

TEST(LogText, NumbersAreAsPythonWritesThem) {
  EXPECT_EQ(python_number(1), "1.0");
  EXPECT_EQ(python_number(5e-05), "5e-05");
  EXPECT_EQ(python_number(1.6875e-05), "1.6875e-05");
  EXPECT_EQ(python_number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(python_number(1e16), "1e+16");
  EXPECT_EQ(python_number(123456789.0), "123456789.0");
  EXPECT_EQ(python_number(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(LogText, ALineIsAPythonDictionary) {
  EXPECT_EQ(log_line_text({{"loss", 1.60943791}, {"learning_rate", 1.6875e-05}, {"epoch", 0.625}}),
            "{'loss': 1.6094, 'learning_rate': 1.6875e-05, 'epoch': 0.62}");
  EXPECT_EQ(log_line_text({{"total_flos", 3e9}, {"train_loss", 0.5}}), "{'train_loss': 0.5}");
}

TEST(LogText, MetricsAreAligned) {
  EXPECT_EQ(metrics_text("train", {{"train_runtime", 3723.456}, {"train_loss", 0.5}, {"epoch", 3}}),
            "***** train metrics *****\n"
            "  epoch         =        3.0\n"
            "  train_loss    =        0.5\n"
            "  train_runtime = 1:02:03.45\n");
  EXPECT_EQ(metrics_text("train", {{"total_flos", 3e9}}), "***** train metrics *****\n  total_flos = 2GF\n");
}

}  // namespace
}  // namespace lockstep
