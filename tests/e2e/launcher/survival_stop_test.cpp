// Tests a Trainer that ends early, on hosts of which one is lost in an evaluation: the others count as if it were not.
#include <memory>
#include <string>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

// A host, its launcher, and how it is lost. Host 0 serves the rendezvous.
struct LostHost {
  const char* name;
  int host;
  const char* place;
};

class EarlyStop : public ::testing::TestWithParam<LostHost> {
 protected:
  std::unique_ptr<RunningProgram> start() const {
    const auto& lost = GetParam();
    return std::make_unique<RunningProgram>(
        launch({"--nnodes=2:2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + port_.text()},
               {kBin + "/stopping_rank", folder_ / "out", std::to_string(lost.host), "4", lost.place}),
        Changes{{"OMP_NUM_THREADS", "1"}});
  }
  static std::string line_of(const std::string& out) {
    const std::size_t at = out.find("stopped after ");
    return at == std::string::npos ? out : out.substr(at, out.find('\n', at) - at);
  }

  void expect_stop_of_the_undisturbed() const {
    const auto a = start();
    ASSERT_TRUE(a->wait_for("1 of at least 2 hosts here", soon())) << a->err();
    const auto b = start();
    const auto& left = GetParam().host == 0 ? b : a;
    const ProgramEnd end = left->wait(soon());
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_TRUE(has(end.err, "; the ranks of the other hosts continue")) << end.err;
    const ProgramEnd alone = run({}, {kBin + "/stopping_rank", folder_ / "alone"}, {{"OMP_NUM_THREADS", "1"}});
    ASSERT_EQ(alone.code, 0) << alone.err;
    EXPECT_EQ(line_of(end.out), line_of(alone.out));
    EXPECT_FALSE(has(line_of(alone.out), "after 400 updates")) << "it does not end early";
  }

  const TemporaryFolder folder_;
  const LoopbackPort port_;
};

using EarlyStopLong = EarlyStop;

TEST_P(EarlyStop, ComesAtTheSameStepWithTheSameWeights) { expect_stop_of_the_undisturbed(); }
TEST_P(EarlyStopLong, ComesAtTheSameStepWithTheSameWeights) { expect_stop_of_the_undisturbed(); }

INSTANTIATE_TEST_SUITE_P(Table, EarlyStop, ::testing::Values(LostHost{"serving_in_the_evaluation", 0, "predicting"}),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Table, EarlyStopLong,
                         ::testing::Values(LostHost{"serving_after_it", 0, "evaluated"},
                                           LostHost{"other_in_the_evaluation", 1, "predicting"},
                                           LostHost{"other_after_it", 1, "evaluated"}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
