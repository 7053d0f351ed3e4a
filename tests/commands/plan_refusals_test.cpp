// Tests what `lockstep plan` refuses before it measures.
#include <gtest/gtest.h>

#include "tests/commands/run_command.h"

namespace lockstep {
namespace {

TEST(PlanCommand, RefusesWhatItCannotRead) {
  const auto refused = [](CommandWords flags, const std::string& text) {
    flags.insert(flags.begin(), {"plan", "--model", "mlp-wide", "--batch", "8", "--steps", "5"});
    const ProgramEnd end = run_command(flags);
    EXPECT_EQ(end.code, 2) << end.out;
    EXPECT_TRUE(says(end.err, text)) << end.err;
  };
  refused({"--link", "fast"}, "--link");
  refused({"--link", "100"}, "--link");
  refused({"--link", "0mbit"}, "--link");
  refused({"--link", "1e-9mbit"}, "--link");
  refused({"--link", "1e300gbit"}, "--link");
  refused({"--latency", "-1us"}, "--latency");
  refused({"--latency", "1e300s"}, "--latency");
  refused({"--threads", "100000"}, "--threads 100000");
  refused({"--seq", "5"}, "--seq 5");
  refused({"--plot", "/proc/x.svg"}, "--plot /proc/x.svg");
  refused({"--hosts", "0"}, "--hosts");
  const ProgramEnd seq = run_command({"plan", "--model", "bert-tiny", "--seq", "100000"});
  EXPECT_EQ(seq.code, 2);
  EXPECT_TRUE(says(seq.err, "at most 512 tokens")) << seq.err;
  const ProgramEnd end = run_command({"plan", "--model", "bert-giant"});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(says(end.err, "bert-mini")) << end.err;
}

}  // namespace
}  // namespace lockstep
