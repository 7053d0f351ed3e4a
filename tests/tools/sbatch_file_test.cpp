#include "tools/slurm/sbatch_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/test_size.h"
#include "tools/slurm/slurm_time.h"

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
  refused([](SbatchOptions& o) { o.time = ""; }, "--time");
  refused([](SbatchOptions& o) { o.time = "1"; }, "--signal-seconds 120");  // signalled at the start
  refused([](SbatchOptions& o) { o.time = "3:00"; }, "--time 3:00");        // up to a minute early
  refused([](SbatchOptions& o) { o.cpus_per_task = 0; }, "--cpus-per-task");
  refused([](SbatchOptions& o) { o.gpus_per_node = 3; }, "--gpus-per-node");
  refused([](SbatchOptions& o) { o.mem = "lots"; }, "--mem");
  refused([](SbatchOptions& o) { o.partition = "a b"; }, "--partition");
  refused([](SbatchOptions& o) { o.signal_seconds = 70000; }, "--signal-seconds");
  refused([](SbatchOptions& o) { o.command.clear(); }, "program");
}

std::vector<std::string> problems_of(const std::string& text) {
  std::vector<std::string> problems;
  for (const FileFinding& finding : check_sbatch_file(text)) {
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

TEST(SbatchFile, TakesShortLimitsWhereTheSignalComesLater) {
  SbatchOptions options = four_by_four();
  options.time = "1";
  options.signal_seconds = 0;
  EXPECT_EQ(sbatch_file(options).find("--signal"), std::string::npos);
  options.time = "4";
  options.signal_seconds = 120;
  EXPECT_TRUE(has_line(sbatch_file(options), "#SBATCH --signal=USR1@120"));
  options.time = "0";  // no limit
  EXPECT_TRUE(check_sbatch_file(sbatch_file(options)).empty());
}

TEST(SlurmTime, ReadsWhatSbatchReads) {
  EXPECT_EQ(slurm_seconds("90"), 5400);
  EXPECT_EQ(slurm_seconds("1:30"), 90);
  EXPECT_EQ(slurm_seconds("2:00:05"), 7205);
  EXPECT_EQ(slurm_seconds("1-2"), 26 * 3600);
  EXPECT_EQ(slurm_seconds("1-2:03"), 26 * 3600 + 180);
  EXPECT_EQ(slurm_seconds("1-2:03:04"), 26 * 3600 + 184);
  for (const char* none : {"", "abc", "1:", "-1", "1:2:3:4", "1-", "1-2:", "1-2:3:4:5", "1:234", "1234567-1", "1 "}) {
    EXPECT_FALSE(slurm_seconds(none)) << none;
  }
  EXPECT_EQ(slurm_seconds("0"), 0);
  EXPECT_EQ(slurm_seconds("123456789"), 123456789LL * 60);
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
  EXPECT_TRUE(problems_of("#!/bin/bash\n#SBATCH --ntasks=4\nsrun ./train --num_gpus=4\n").empty());  // of ./train
}

TEST(SbatchCheck, ReadsCommandsAsAShellDoes) {
  const std::string two = "#!/bin/bash\n#SBATCH --ntasks=2\n";
  expect_only(two + "srun \\\n  --num_gpus 2 ./t\n", "3", "--gpus");
  expect_only(two + "srun -n 2 --num_gpus 2 ./t\n", "3", "--gpus");
  expect_only(two + "cd x && srun --num_gpus=2 ./t\n", "3", "--gpus");
  expect_only(two + "srun hostname; ./ddp_mnist\n", "3", "put srun before it");
  expect_only(two + "for i in 1 2; do ./ddp_mnist; done\n", "3", "put srun before it");
  expect_only(two + "echo s | ./ddp_mnist\n", "3", "put srun before it");
  expect_only(two + "if [[ -n $A && -d b ]]; then\n  A=1 ./ddp_mnist 2>&1 | tee log\nfi\n", "4", "put srun before it");
  expect_only(two + "[[ -d a ||\n -d b ]]\n./ddp_mnist\n", "5", "put srun before it");
  for (const char* harmless :
       {"module load x && torchrun a.py", "cd x; torchrun a.py", "FOO=1 lockstep run ./x",
        "for i in 1 2; do A=$i srun ./t; done", "time srun -n 2 ./t > log 2>&1 &\nwait", "./prepare; srun ./t",
        "M=$(scontrol show hostnames | head -n 1)\nsrun ./t", "srun sh -c './a; ./b\n./c'",
        "cat > f <<'END'\n./a; ./b\nEND\nsrun ./t", "cat <<< word\nsrun ./t",
        "case $A in\n  a|b) srun ./a;;\n  *) srun ./b;;\nesac", "f() {\n  srun ./t \"$@\"\n}\nf 1",
        "((n = 2 > 1)) && srun ./t  # ; ./u", "srun --gpus 2 -N 2 ./t --num_gpus=2"}) {
    EXPECT_TRUE(problems_of(two + harmless + "\n").empty())
        << harmless << ::testing::PrintToString(problems_of(two + harmless + "\n"));
  }
}

TEST(SbatchCheck, NamesValuesThatSbatchRefuses) {
  expect_only("#!/bin/bash\n#SBATCH --nodes\nsrun ./t\n", "2", "--nodes has no value");
  expect_only("#!/bin/bash\n#SBATCH --nodes=x\nsrun ./t\n", "2", "--nodes is \"x\"");
  expect_only("#!/bin/bash\n#SBATCH -N x\nsrun ./t\n", "2", "--nodes is \"x\"");
  expect_only("#!/bin/bash\n#SBATCH --time=abc\nsrun ./t\n", "2", "--time is \"abc\"");
  expect_only("#!/bin/bash\n#SBATCH --ntasks=0\nsrun ./t\n", "2", "--ntasks is \"0\"");
  EXPECT_TRUE(problems_of("#!/bin/bash\n#SBATCH -N 2-4 -n 8 --time UNLIMITED --exclusive  # all\nsrun ./t\n").empty());
}

TEST(SbatchCheck, TakesUnitsOfMemoryAsSlurmDoes) {
  for (const char* memory : {"64", "64G", "64g", "64gb", "64GB", "500Mb", "2t", "100K", "0"}) {
    const std::string job = std::string("#!/bin/bash\n#SBATCH --mem=") + memory + "\nsrun ./t\n";
    EXPECT_TRUE(problems_of(job).empty()) << memory;
    SbatchOptions options = four_by_four();
    options.mem = memory;
    EXPECT_NO_THROW(sbatch_file(options)) << memory;
  }
  for (const char* memory : {"gb", "64b", "64GiB", "64 G", "-1", "1.5G", "64P"}) {
    const std::string job = std::string("#!/bin/bash\n#SBATCH --mem=") + memory + "\nsrun ./t\n";
    if (std::string(memory) != "64 G") expect_only(job, "2", "--mem is");
    SbatchOptions options = four_by_four();
    options.mem = memory;
    EXPECT_THROW(sbatch_file(options), UsageError) << memory;
  }
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

// An earlier reader handled these by recursion for each character, or compared all with all.
TEST(SbatchCheck, ReadsAnyText) {
  const std::string two = "#!/bin/bash\n#SBATCH --ntasks=2\n";
  for (const char* const part : {"A",  "(",   "{\"a\":", "$(", "`", "\"", "'",          "\\",     "<<", "<<<", "<<A ",
                                 "${", "[[ ", "((",      "A=", "$", "; ", "case x in ", "1 node", "0",  "f()"}) {
    problems_of(two + repeated(part, 50000) + "\n");
    problems_of(two + "# " + repeated(part, 50000) + "\n");
    problems_of(two + "#SBATCH --sig" + repeated(part, 50000) + "\n");
    problems_of(two + "#SBATCH --signal=" + repeated(part, 50000) + "\n#SBATCH --time=" + repeated(part, 50000) + "\n");
    problems_of(two + "#SBATCH --nodes=" + repeated(part, 50000) + "\n#SBATCH --gres=" + repeated(part, 50000) + "\n");
    problems_of(two + "srun --" + repeated(part, 50000) + " x\n");
  }
  // A suggestion is looked for in each of these lines.
  problems_of(two + repeated("#SBATCH --sigAAAA\n", test_size(1000, 20000)));
}

TEST(SbatchCheck, ShowsLittleOfALongValue) {
  const auto problems = problems_of("#!/bin/bash\n#SBATCH --sig" + repeated("A", 100000) + "\nsrun ./t\n");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_LT(problems[0].size(), 500U);
  EXPECT_EQ(problems_of("#!/bin/bash\n#SBATCH --nodes=\x1b[31m\nsrun ./t\n")[0].find('\x1b'), std::string::npos);
}

TEST(SbatchFile, TakesWordsOfAnyLength) {
  SbatchOptions options = four_by_four();
  const std::string plain = repeated("A", 50000), other = repeated("A b", 50000);
  options.command = {"./train", plain, other};
  options.job_name = plain;
  const std::string text = sbatch_file(options);
  EXPECT_NE(text.find(" " + plain + " '" + other + "'"), std::string::npos);
  options.job_name = other;
  EXPECT_THROW(sbatch_file(options), UsageError);
}

TEST(SbatchCheck, NamesASignalThatComesAtTheStart) {
  const std::string job = "#!/bin/bash\n#SBATCH --ntasks=2\n#SBATCH --signal=USR1@120\n";
  expect_only(job + "#SBATCH --time=1\nsrun ./t\n", "3", "as soon as it starts");
  EXPECT_TRUE(problems_of(job + "#SBATCH --time=10\nsrun ./t\n").empty());
  expect_only("#!/bin/bash\n#SBATCH --signal=USR1\n#SBATCH -t 2\nsrun ./t\n", "2", "60 s before");
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
