// Tests closed or full standard streams, and a limit on addresses: the command works, or reports what is missing.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

const std::string kCommand = kBin + "/lockstep";

// A training of two steps on texts, so that a tokenizer is saved.
std::string text_training(const std::string& output) {
  const std::string data = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";
  return kCommand + " train --task text-classification --model bert-tiny --tokenizer " + data +
         "reviews-vocab --train-file " + data +
         "reviews.csv --label-column division --max-length 32 --max-train-samples 64 --max-steps 2 --logging-steps 1 "
         "--save-steps 1 --output-dir " +
         output;
}

bool is_lines_of_json(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!nlohmann::json::accept(line)) return false;
  }
  return true;
}

struct Closed {
  const char* name;
  const char* redirections;
  friend std::ostream& operator<<(std::ostream& out, const Closed& c) { return out << c.name; }
};
class ClosedStreams : public ::testing::TestWithParam<Closed> {};

TEST_P(ClosedStreams, NeverBecomeFilesOfTheTraining) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const ProgramEnd end = run_program(shell(text_training(out) + " " + GetParam().redirections));
  EXPECT_EQ(end.signal, 0) << end.err;
  EXPECT_EQ(end.code, 0) << end.err;
  const std::string metrics = content(fs::path(out) / "metrics.jsonl");
  EXPECT_FALSE(metrics.empty());
  EXPECT_TRUE(is_lines_of_json(metrics)) << metrics;
  EXPECT_FALSE(has(content(fs::path(out) / ".lockstep.lock"), "Running training"));
  EXPECT_TRUE(fs::exists(fs::path(out) / "model.safetensors"));
}

TEST_P(ClosedStreams, LeaveTheExitCodeOfAFailure) {
  for (const char* arguments : {" predict --model /nowhere", " nosuch", " train --nosuch"}) {
    const ProgramEnd end = run_program(shell(kCommand + arguments + " " + GetParam().redirections));
    EXPECT_EQ(end.signal, 0) << arguments;
    EXPECT_TRUE(end.code == 1 || end.code == 2) << arguments << ": " << end.code;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ClosedStreams, ::testing::Values(Closed{"all", "<&- >&- 2>&-"}),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(EachLong, ClosedStreams,
                         ::testing::Values(Closed{"in_and_out", "<&- >&-"}, Closed{"out", ">&-"}),
                         [](const auto& test) { return test.param.name; });

TEST(FullStreams, AreAFailure) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const char* arguments : {" --version", " --help", " train --help", " run --help", " sampler --dataset-size 4"}) {
    const ProgramEnd end = run_program(shell(kCommand + arguments + " >/dev/full"));
    EXPECT_EQ(end.code, 1) << arguments;
    EXPECT_TRUE(has(end.err, "cannot write the output: No space left on device")) << arguments << ": " << end.err;
  }
  EXPECT_EQ(run_program(shell(kCommand + " --version >/dev/full 2>/dev/full")).code, 1);
}

// The host may have memory left: what is short is addresses.
TEST(AddressSpace, IsNamedWithItsLimitInAnErrorForWantOfMemory) {
  const TemporaryFolder folder;
  const std::string file = folder / "table.csv";
  std::ofstream(file) << "height,label\n1,short\n2,tall\n";
  fs::resize_file(file, std::uintmax_t{64} << 30);  // a hole
  const std::string kibibytes = "50331648";
  const ProgramEnd end = run_program(shell("ulimit -v " + kibibytes + "; exec " + kCommand +
                                           " train --task tabular-classification --model mlp --train-file " + file +
                                           " --output-dir " + (folder / "out")));
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(has(end.err, "Cannot allocate memory")) << end.err;
  EXPECT_TRUE(has(end.err, "the limit on address space, ulimit -v, is 49152 MiB")) << end.err;
}

}  // namespace
}  // namespace lockstep
