#include "lockstep/launch/sbatch_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

SbatchOptions four_by_four() {
  SbatchOptions options;
  options.nodes = 4;
  options.ntasks_per_node = 4;
  options.gpus_per_node = 4;
  options.time = "2:00:00";
  options.command = {"./train", "--name", "it's a run", "--lr", "0.1"};
  return options;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(SbatchFile, AsksForWhatItWasToldAndStartsTheProgramBySrun) {
  const std::string text = sbatch_file(four_by_four());
  EXPECT_EQ(text.rfind("#!/bin/bash\n", 0), 0U);
  for (const char* line : {"#SBATCH --job-name=train", "#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=4",
                           "#SBATCH --gpus-per-node=4", "#SBATCH --time=2:00:00", "#SBATCH --requeue",
                           "#SBATCH --signal=USR1@120", "srun ./train --name 'it'\\''s a run' --lr 0.1"}) {
    EXPECT_TRUE(has_line(text, line)) << line << "\nin\n" << text;
  }
  EXPECT_TRUE(check_sbatch_file(text).empty()) << check_sbatch_file(text).front().problem;
}

TEST(SbatchFile, WithoutRequeueQueuesNothingAgain) {
  SbatchOptions options = four_by_four();
  options.requeue = false;
  options.signal_seconds = 0;
  const std::string text = sbatch_file(options);
  EXPECT_TRUE(has_line(text, "#SBATCH --no-requeue"));
  EXPECT_EQ(text.find("scontrol"), std::string::npos);
  EXPECT_EQ(text.find("USR1"), std::string::npos);
}

TEST(SbatchFile, RefusesWhatSlurmWould) {
  const auto refused = [](void (*change)(SbatchOptions&), const std::string& flag) {
    SbatchOptions options = four_by_four();
    change(options);
    try {
      sbatch_file(options);
      ADD_FAILURE() << flag << " was taken";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(flag), std::string::npos) << error.what();
    }
  };
  refused([](SbatchOptions& o) { o.nodes = 0; }, "--nodes");
  refused([](SbatchOptions& o) { o.ntasks_per_node = -1; }, "--ntasks-per-node");
  refused([](SbatchOptions& o) { o.time = "two hours"; }, "--time");
  refused([](SbatchOptions& o) { o.mem = "lots"; }, "--mem");
  refused([](SbatchOptions& o) { o.partition = "a b"; }, "--partition");
  refused([](SbatchOptions& o) { o.signal_seconds = 70000; }, "--signal-seconds");
  refused([](SbatchOptions& o) { o.command.clear(); }, "program");
}

std::vector<std::string> problems_of(const std::string& text) {
  std::vector<std::string> problems;
  for (const SbatchFinding& finding : check_sbatch_file(text)) {
    problems.push_back(std::to_string(finding.line) + ": " + finding.problem + " | " + finding.fix);
  }
  return problems;
}

void expect_only(const std::string& text, const std::string& line, const std::string& part) {
  const auto problems = problems_of(text);
  ASSERT_EQ(problems.size(), 1U) << text << ::testing::PrintToString(problems);
  EXPECT_EQ(problems[0].rfind(line + ": ", 0), 0U) << problems[0];
  EXPECT_NE(problems[0].find(part), std::string::npos) << problems[0];
}

TEST(SbatchCheck, NamesAProgramWithoutSrun) {
  expect_only("#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=4\npython train.py\n", "4", "16 tasks");
  expect_only("#!/bin/bash\n#SBATCH --ntasks=2\nmodule load gcc\n./train\n", "4", "put srun before it");
  expect_only("#!/bin/bash\n#SBATCH --nodes=2\ntorchrun --nproc_per_node=4 train.py\n", "3", "first node only");
  EXPECT_TRUE(problems_of("#!/bin/bash\n./train\n").empty());  // one task: nothing to start twice
  EXPECT_TRUE(problems_of("#!/bin/bash\n#SBATCH --ntasks=4\nlockstep run --nproc-per-node 4 ./train\n").empty());
}

TEST(SbatchCheck, NamesOptionsThatSlurmDoesNotKnow) {
  expect_only("#!/bin/bash\n#SBATCH --ntasks=4\nsrun --num_gpus=4 ./train\n", "3", "--gpus");
  expect_only("#!/bin/bash\n#SBATCH --ntasks_per_node=4\nsrun ./train\n", "2", "--ntasks-per-node");
  EXPECT_TRUE(
      problems_of("#!/bin/bash\n#SBATCH --ntasks=4\nsrun ./train --num_gpus=4\n").empty());  // the program's own
}

TEST(SbatchCheck, NamesWhatSbatchDoesNotRead) {
  expect_only("#!/bin/bash\nexport A=1\n#SBATCH --ntasks=4\nsrun ./train\n", "3", "move it above");
  expect_only("#!/bin/bash\n#SBATCH --job-name=${NAME}\nsrun ./train\n", "2", "variables");
  expect_only("#SBATCH --ntasks=4\nsrun ./train\n", "1", "#!/bin/bash");
}

TEST(SbatchCheck, NamesNumbersThatDoNotFit) {
  expect_only("#!/bin/bash\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:a100:8\nsrun ./train\n", "3", "8 GPUs");
  expect_only("#!/bin/bash\n# e.g. request 8 nodes with 4 GPUs each\n#SBATCH --nodes=4\nsrun ./train\n", "2",
              "8 nodes");
}

}  // namespace
}  // namespace lockstep
