// Tests `lockstep config`, `launch` and `slurm` as far as they start nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(ConfigCommand, WritesDefaultsOnceOnly) {
  const TemporaryFolder folder;
  const auto config = [&](const CommandWords& words) { return run_command(words, "", {{"HF_HOME", folder.path()}}); };
  EXPECT_EQ(config({"config", "default", "--mixed_precision", "bf16"}).code, 0);
  const std::string file = folder.path() + "/accelerate/default_config.yaml";
  const std::string before = read_file(file);
  EXPECT_TRUE(says(before, "mixed_precision: bf16\n")) << before;
  const ProgramEnd again = config({"config", "default"});
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(says(again.err, "a configuration already exists")) << again.err;
  EXPECT_EQ(read_file(file), before);
  EXPECT_EQ(config({"config", "update"}).code, 0);
  EXPECT_EQ(read_file(file), before);
}

TEST(ConfigCommand, AsksOnItsOutputAndReadsItsInput) {
  const TemporaryFolder folder;
  const std::string file = folder / "two.yaml";
  const ProgramEnd asked = run_command({"config", "--config-file", file}, "0\n1\n1\nno\nno\nno\n3\nbf16\n");
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_TRUE(says(asked.out, "accelerate configuration saved at " + file)) << asked.out;
  EXPECT_TRUE(says(read_file(file), "num_processes: 3\n")) << read_file(file);
}

TEST(LaunchCommand, SaysWhatItDoesNotKnow) {
  const ProgramEnd unknown = run_command({"launch", "--num-proceses", "2", "echo", "hello"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(says(unknown.err, "did you mean '--num-processes'?")) << unknown.err;
  const ProgramEnd nothing = run_command({"launch", "--num-processes", "2"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_TRUE(says(nothing.err, "there is no program to run")) << nothing.err;
}

TEST(SlurmCommand, SaysWhyAScriptCannotBeChecked) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "empty.sh", "");
  ASSERT_EQ(::mkfifo(std::string(folder / "fifo").c_str(), 0600), 0);
  const auto refused = [&](const std::string& path, const std::string& text) {
    const ProgramEnd end = run_command({"slurm", "--check", path});
    EXPECT_EQ(end.code, 1) << end.out;
    EXPECT_TRUE(says(end.err, text)) << end.err;
  };
  refused(folder / "none.sh", "No such file or directory");
  refused(folder / "empty.sh", "it is empty");
  refused(folder / "", "is a folder");
  refused(folder / "fifo", "is not a regular file but a pipe, which is empty and has no writer");
}

TEST(SlurmCommand, RefusesWhatSlurmWouldNotDo) {
  const auto refused = [](const CommandWords& flags, const std::string& text) {
    CommandWords words{"slurm"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "./t"});
    const ProgramEnd end = run_command(words);
    EXPECT_EQ(end.code, 2) << end.out;
    EXPECT_TRUE(says(end.err, text)) << end.err;
  };
  refused({"--time", "1"}, "--signal-seconds 120");
  refused({"--time", ""}, "--time");
  refused({"--cpus-per-task", "0"}, "--cpus-per-task");
  refused({"--gpus-per-node", "3", "--ntasks-per-node", "2"}, "--gpus-per-node");
}

}  // namespace
}  // namespace lockstep
