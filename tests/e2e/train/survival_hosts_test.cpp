// Tests `lockstep train --survive-lost-ranks` on hosts, which several launchers of this machine represent, each with a
// memory of its own. Updates are fused, and weights and the optimizer's state must be those of the undisturbed
// training.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/launch.h"
#include "tests/e2e/train/review_classification.h"

namespace lockstep {
namespace {

constexpr int kHostSteps = 900;  // a host joins meanwhile, also on busy cores

using Host = std::unique_ptr<RunningProgram>;

Words survivable_training(const std::string& output, const Words& more) {
  const std::string third = std::to_string(kHostSteps / 3);
  return review_classification(
      output, joined_words({"--virtual-shards", "4", "--per-device-train-batch-size", "2", "--max-length", "16",
                            "--max-train-samples", "80", "--max-steps", std::to_string(kHostSteps), "--save-steps",
                            third, "--logging-steps", "20"},
                           more));
}

std::string result_of(const std::string& output) {
  const std::string last = output + "/checkpoint-" + std::to_string(kHostSteps);
  return read_file(output + "/model.safetensors") + read_file(last + "/model.safetensors") +
         read_file(last + "/optimizer.safetensors");
}

// The suite has a Trainer on hosts of which one is lost (tests/e2e/launcher/survival_stop_test.cpp), and hosts that
// join and are lost under on_rank_change.
class TrainingOnHostsLong : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder;
    const ProgramEnd end = run({"--nproc-per-node", "2"}, survivable_training(folder / "out", {"--fuse", "false"}));
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    undisturbed_ = result_of(folder / "out");
  }
  Host host(const std::string& nnodes = "1:2", const std::string& last_call = "0.2") const {
    const Words flags{"--nnodes=" + nnodes,
                      "--rdzv-backend=c10d",
                      "--rdzv-endpoint=127.0.0.1:" + port_.text(),
                      "--rdzv-conf=last_call_timeout=" + last_call,
                      "--nproc-per-node=2",
                      "--max-restarts=9"};
    return std::make_unique<RunningProgram>(
        launch(flags, survivable_training(folder_ / "out", {"--survive-lost-ranks", "true"})));
  }
  static void expect(const Host& host, const std::string& text) {
    EXPECT_TRUE(host->wait_for(text, Deadline::after(std::chrono::seconds(120)))) << text << " did not come:\n"
                                                                                  << host->out() << host->err();
  }
  // The ranks of a host that has just joined have the training's state once the first rank, which is on `first`, has
  // logged an update that they took part in.
  void expect_update_after_joining(const Host& first) const {
    const auto logged = [this] { return sorted_lines(read_file(folder_ / "out/metrics.jsonl")).size(); };
    for (const auto before = logged(); logged() == before;) {
      ASSERT_TRUE(first->wait_for_more(Deadline::after(std::chrono::seconds(120)))) << first->out() << first->err();
    }
  }
  void expect_result(const std::vector<const Host*>& hosts) const {
    for (const Host* host : hosts) {
      const ProgramEnd end = (*host)->wait(Deadline::after(std::chrono::seconds(300)));
      EXPECT_EQ(end.code, 0) << end.out << end.err;
      EXPECT_FALSE(has(end.err, "the ranks start: ")) << "ranks were started again: " << end.err;
    }
    EXPECT_TRUE(result_of(folder_ / "out") == undisturbed_);
  }

  const TemporaryFolder folder_;
  const LoopbackPort port_;
  static std::string undisturbed_;
};
std::string TrainingOnHostsLong::undisturbed_;

TEST_F(TrainingOnHostsLong, AHostJoinsIsLostAndAnotherOneJoins) {
  const Host a = host();
  expect(a, "fused update with shared weights, survives lost ranks");
  expect(a, "{'loss'");
  Host b = host();
  expect(b, "has joined as rank ");
  b->send(SIGKILL);
  expect(a, "; the ranks of the other hosts continue");
  const Host c = host();
  expect(c, "has joined as rank ");
  expect_result({&a, &c});
}

// The only memory that has the whole training is that of a host that joined.
TEST_F(TrainingOnHostsLong, TheFirstHostIsLost) {
  const Host a = host();
  expect(a, "{'loss'");
  const Host b = host();
  expect(b, "has joined as rank ");
  expect_update_after_joining(a);
  a->send(SIGKILL);
  expect(b, "; the ranks of the other hosts continue");
  const Host c = host("1:2", "60");
  expect(c, "has joined as rank ");
  expect_result({&b, &c});
}

}  // namespace
}  // namespace lockstep
