// Tests the example of `on_rank_change`: a rank is killed, and the losses are those of the undisturbed run.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/support/process_of_rank.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kElasticBin = std::string(LOCKSTEP_BIN_DIR) + "/";

Deadline elastic_deadline() { return Deadline::after(std::chrono::seconds(120)); }

std::string make_few_digits(const TemporaryFolder& folder) {
  const std::string path = folder / "digits";
  const ProgramEnd made =
      run_program({kElasticBin + "lockstep", "data", "digits", "--output", path, "--train", "400", "--test", "100"});
  EXPECT_EQ(made.code, 0) << made.err;
  return path;
}

std::vector<std::string> elastic_mnist(const std::string& digits, const std::string& steps) {
  return {kElasticBin + "lockstep",
          "run",
          "--nproc-per-node",
          "2",
          "--max-restarts",
          "1",
          kElasticBin + "elastic_mnist",
          "--data",
          digits,
          "--batch_size",
          "5",
          "--steps",
          steps};
}

// "Step [150/", and what the line says of the loss.
std::string loss_after(const std::string& out, int step) {
  const std::size_t line = out.find("Step [" + std::to_string(step) + "/");
  if (line == std::string::npos) return "no such step";
  const std::size_t loss = out.find("Loss: ", line);
  return out.substr(loss, out.find('\n', loss) - loss);
}

TEST(ElasticMnist, LearnsTheSameIfARankIsKilled) {
  const TemporaryFolder folder;
  const std::string digits = make_few_digits(folder);
  const ProgramEnd calm = run_program(elastic_mnist(digits, "150"), {}, std::chrono::seconds(120));
  ASSERT_EQ(calm.code, 0) << calm.err;
  const std::string label = "Accuracy on the test images: ";
  ASSERT_NE(calm.out.find(label), std::string::npos) << calm.out;
  EXPECT_GE(std::stod(calm.out.substr(calm.out.find(label) + label.size())), 50) << calm.out;

  // It has too many steps to end before the shot. The test ends it.
  RunningProgram shot(elastic_mnist(digits, "1000000"));
  ASSERT_TRUE(shot.wait_for("Step [50/", elastic_deadline())) << shot.err();
  const auto rank = process_of_rank(shot.pid(), 0);
  ASSERT_TRUE(rank) << shot.err();
  ::kill(*rank, SIGKILL);
  ASSERT_TRUE(shot.wait_for("has joined in the place of rank 0: 2 ranks", elastic_deadline())) << shot.err();
  while (shot.out().find("Step [150/") == std::string::npos) {
    ASSERT_TRUE(shot.wait_for_more(elastic_deadline())) << shot.out() << shot.err();
  }
  shot.send(SIGTERM);
  const ProgramEnd end = shot.wait(elastic_deadline());
  EXPECT_NE(end.err.find("killed by SIGKILL (Killed). The others continue with 1 rank"), std::string::npos) << end.err;
  for (const int step : {50, 100, 150}) EXPECT_EQ(loss_after(end.out, step), loss_after(calm.out, step)) << end.out;
}

}  // namespace
}  // namespace lockstep
