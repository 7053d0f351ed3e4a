// Tests `lockstep train` on hosts that join and leave: each start resumes from the newest checkpoint, on all available
// ranks.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/e2e/launch.h"
#include "tests/e2e/train/review_classification.h"

namespace lockstep {
namespace {

TEST(ElasticTrain, GoesOnAsHostsComeAndGo) {
  const TemporaryFolder folder;
  const LoopbackPort port;
  const auto host = [&] {
    return std::make_unique<RunningProgram>(
        launch({"--nnodes=1:2", "--rdzv-endpoint=127.0.0.1:" + port.text(), "--rdzv-conf=last_call_timeout=0.2"},
               review_classification(
                   folder / "out", {"--max-train-samples", "2000", "--allow-world-size-change", "true", "--max-length",
                                    "64", "--num-train-epochs", "500", "--logging-steps", "1", "--save-steps", "20",
                                    "--save-total-limit", "2", "--resume-from-checkpoint", "true"})));
  };
  const auto expect = [](RunningProgram& program, const std::string& text) {
    EXPECT_TRUE(program.wait_for(text, soon())) << text << " did not come:\n" << program.out() << program.err();
  };
  const auto a = host();
  const auto times = [&](const std::string& text) {
    int count = 0;
    for (std::size_t at = a->out().find(text); at != std::string::npos; at = a->out().find(text, at + 1)) ++count;
    return count;
  };
  const auto expect_times = [&](const std::string& text, int count) {
    while (times(text) < count) ASSERT_TRUE(a->wait_for_more(soon())) << a->out() << a->err();
  };
  expect(*a, "{'loss': ");
  {
    const auto b = host();
    expect(*a, " joined\n");
    expect(*a, " was written by 1 rank; this job has 2");
    expect_times("Continuing from ", 1);
    expect(*a, "DistributedDataParallel: 2 ranks");
    expect_times("{'loss': ", times("{'loss': ") + 45);  // a checkpoint of two ranks exists
    b->send(SIGKILL);
    expect(*a, "was lost: connection closed");
  }
  expect(*a, "the ranks start: 1 on 1 host");
  expect(*a, " was written by 2 ranks; this job has 1");
  expect_times("Continuing from ", 2);
  a->send(SIGTERM);
  EXPECT_EQ(a->wait(soon()).code, 128 + SIGTERM) << a->err();
}

}  // namespace
}  // namespace lockstep
