// Tests programs under a real Slurm: plain srun, and the scripts that `lockstep slurm` writes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/launch.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/slurm_cluster.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kSlurmPatience{90};

class Slurm : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!SlurmCluster::why_not()) cluster_ = std::make_unique<SlurmCluster>(2);
  }
  static void TearDownTestSuite() { cluster_.reset(); }

  void SetUp() override {
    if (const auto reason = SlurmCluster::why_not()) GTEST_SKIP() << *reason;
    const auto made =
        run_program({kBin + "/lockstep", "data", "digits", "--output", digits(), "--train", "400", "--test", "100"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  void TearDown() override {
    if (HasFailure() && cluster_) std::printf("%s\n", cluster_->log().c_str());
  }

  std::string digits() const { return folder_ / "digits"; }
  Words mnist() const { return {kBin + "/ddp_mnist", "--data", digits(), "--batch_size", "50", "--epochs", "1"}; }
  // Runs `words` as a user of the cluster.
  ProgramEnd on_cluster(Words words, const Words& more = {}, Changes changes = {}) const {
    words.insert(words.end(), more.begin(), more.end());
    changes.merge(cluster_->changes());
    return run_program(words, changes, kSlurmPatience);
  }
  // Submits a script and waits for the job's end; its exit code is the job's.
  ProgramEnd submit(const std::string& script, Changes changes = {}) const {
    return on_cluster({"sbatch", "--wait", "--chdir=" + std::string(folder_ / ""), script}, {}, std::move(changes));
  }
  void write_script(const std::string& path, Words flags, const Words& program) const {
    Words words{kBin + "/lockstep", "slurm", "--file", path, "--output", folder_ / "job.out"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    const ProgramEnd end = on_cluster(words, program);
    ASSERT_EQ(end.code, 0) << end.err;
  }
  std::string job_output() const { return content(folder_ / "job.out"); }

  const TemporaryFolder folder_;
  static std::unique_ptr<SlurmCluster> cluster_;
};

std::unique_ptr<SlurmCluster> Slurm::cluster_;

void expect_all_ranks(const std::string& out, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(has(out, "hello! Node # " + std::to_string(rank) + " is running!")) << out;
  }
  EXPECT_TRUE(has(out, "Accuracy on the test images:")) << out;
}

// Seconds: Slurm starts the tasks, and three ranks train.
TEST_F(Slurm, SrunAloneStartsTheRanksOfOneHost) {
  const ProgramEnd end = on_cluster({"srun", "-n", "3", "-N", "1"}, mnist(), {{"MASTER_ADDR", {}}});
  EXPECT_EQ(end.code, 0) << end.err;
  expect_all_ranks(end.out, 3);
}

TEST_F(Slurm, SrunAloneStartsTheRanksOfTwoHosts) {
  const ProgramEnd end = on_cluster({"srun", "-n", "3", "-N", "2"}, mnist());  // two on one host, one on the other
  EXPECT_EQ(end.code, 0) << end.err;
  expect_all_ranks(end.out, 3);
}

// Seconds: Slurm starts the tasks, and each loads LibTorch.
TEST_F(Slurm, TheContextOfATutorialKnowsItsRanks) {
  const std::string shipped = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";
  const ProgramEnd end =
      on_cluster({"srun", "-n", "2", "-N", "1"}, {kBin + "/oslo_gpt2", "--data", shipped + "reviews.csv", "--tokenizer",
                                                  shipped + "bytes-vocab", "--train_step", "20", "--dp_size", "2"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.out, "Step: 20, Loss: ")) << end.out;
}

// Seconds: Slurm schedules a batch job by a clock of its own, and four ranks train.
TEST_F(Slurm, AWrittenScriptStartsAllRanks) {
  write_script(folder_ / "job.sh", {"--nodes", "2", "--ntasks-per-node", "2", "--time", "5"}, mnist());
  const ProgramEnd end = submit(folder_ / "job.sh");
  EXPECT_EQ(end.code, 0) << end.err << job_output();
  expect_all_ranks(job_output(), 4);
}

// Seconds: Slurm schedules a batch job by a clock of its own.
TEST_F(Slurm, AScriptWithoutSrunIsToldSo) {
  std::string program;
  for (const std::string& word : mnist()) program += word + " ";
  const std::string script = folder_ / "wrong.sh";
  write_file_atomically(script,
                        "#!/bin/bash\n#SBATCH --ntasks=4 --output=" + (folder_ / "job.out") + "\n" + program + "\n");
  submit(script);
  EXPECT_TRUE(has(job_output(), "the Slurm job asked for 4 tasks, but this is a single process")) << job_output();
  const ProgramEnd check = on_cluster({kBin + "/lockstep", "slurm", "--check", script});
  EXPECT_EQ(check.code, 1);
  EXPECT_TRUE(has(check.out, script + ":3: without srun")) << check.out;
}

TEST(SlurmCommand, ChecksAScriptFromAPipe) {
  const std::string program = kBin + "/lockstep slurm";
  const auto check = [](const std::string& shell) { return run_program({"sh", "-c", shell}); };
  const ProgramEnd good = check(program + " -- ./train | " + program + " --check /dev/stdin");
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_TRUE(has(good.out, "/dev/stdin: nothing found")) << good.out;
  const ProgramEnd bad =
      check("printf '#!/bin/sh\n#SBATCH --ntasks=4\n./train\n' | " + program + " --check /dev/stdin");
  EXPECT_EQ(bad.code, 1) << bad.err;
  EXPECT_TRUE(has(bad.out, "/dev/stdin:3: without srun")) << bad.out;
  const ProgramEnd large = check("yes '# a comment' | " + program + " --check /dev/stdin");
  EXPECT_EQ(large.code, 1) << large.out;
  EXPECT_TRUE(has(large.err, "at most 1048576 are allowed")) << large.err;
}

// A warning before the time limit: the training saves, the job is queued again, continues from there, and ends with the
// bits of a training that nobody has warned. Slurm itself takes ten seconds for it.
class SlurmWarning : public Slurm {
 protected:
  // A training of two ranks into `output`.
  Words training(const std::string& output) const {
    return review_classification(output, {"--max-length", "16", "--max-steps", "400", "--logging-steps", "1",
                                          "--save-steps", "100000", "--resume-from-checkpoint", "true"});
  }
  std::string state_of(const std::string& job) const { return on_cluster({"scontrol", "show", "job", job}).out; }
  void wait_for(const std::string& what, const std::function<bool()>& holds) const {
    const Deadline deadline = Deadline::after(kSlurmPatience);
    while (!holds()) {
      ASSERT_FALSE(deadline.passed()) << what << " did not come:\n" << job_output();
      on_cluster({"sleep", "0.2"});  // another process writes, without an event to wait for
    }
  }
  std::string queue() const {
    const ProgramEnd queued =
        on_cluster({"sbatch", "--parsable", "--chdir=" + std::string(folder_ / ""), folder_ / "job.sh"});
    EXPECT_EQ(queued.code, 0) << queued.err;
    return queued.out.substr(0, queued.out.find('\n'));
  }
  void wait_for_end(const std::string& job) const {
    bool has_start = false;
    wait_for("the end", [&] {
      const std::string state = state_of(job);
      // Slurm lets a requeued job wait two minutes, and takes another start only once the first turn is cleaned up. Its
      // daemon refuses what starts in the second in which it ended the first turn: it takes that for the ended job.
      if (!has_start && has(state, "JobState=PENDING"))
        has_start = on_cluster({"scontrol", "update", "JobId=" + job, "StartTime=now+2"}).code == 0;
      EXPECT_FALSE(has(state, "JobState=FAILED")) << state;
      return has(state, "JobState=COMPLETED") || HasFailure();
    });
  }
  void expect_saved_and_queued_again(const Words& flags, const Words& launcher) {
    Words program = launcher;
    for (const std::string& word : training(folder_ / "warned")) program.push_back(word);
    Words all{"--time", "5"};
    all.insert(all.end(), flags.begin(), flags.end());
    write_script(folder_ / "job.sh", all, program);
    const ProgramEnd check = on_cluster({kBin + "/lockstep", "slurm", "--check", folder_ / "job.sh"});
    EXPECT_EQ(check.code, 0) << check.out;
    const std::string job = queue();
    wait_for("a step", [&] { return has(job_output(), "'loss'"); });
    ASSERT_EQ(on_cluster({"scancel", "--signal=USR1", job}).code, 0);  // as Slurm does by itself: all of the step
    wait_for("the second turn", [&] { return has(state_of(job), "Restarts=1"); });
    EXPECT_TRUE(has(job_output(), "Stopped by signal 10 (SIGUSR1) after step ")) << job_output();
    wait_for_end(job);
    EXPECT_TRUE(has(job_output(), "Continuing from ")) << job_output();

    Words alone{kBin + "/lockstep", "run", "--nproc-per-node", "2"};
    for (const std::string& word : training(folder_ / "alone")) alone.push_back(word);
    const ProgramEnd whole = run_program(alone, {{"OMP_NUM_THREADS", "1"}}, kSlurmPatience);
    ASSERT_EQ(whole.code, 0) << whole.err;
    const std::string weights = content(folder_ / "alone/model.safetensors");
    EXPECT_FALSE(weights.empty());
    EXPECT_TRUE(content(folder_ / "warned/model.safetensors") == weights) << job_output();
  }
};

// Up to 20 s: Slurm warns a job, queues it again and starts it a second time, by a clock of seconds.
TEST_F(SlurmWarning, ToALauncherOnEachHostSavesAndQueuesAgainWithEqualBits) {
  expect_saved_and_queued_again({"--nodes", "2"}, {kBin + "/lockstep", "run", "--nproc-per-node", "1"});
}

class SlurmWarningLong : public SlurmWarning {};

TEST_F(SlurmWarningLong, ToRanksOfSrunSavesAndQueuesAgainWithEqualBits) {
  expect_saved_and_queued_again({"--ntasks-per-node", "2"}, {});
}

TEST_F(SlurmWarningLong, ToALauncherOnOneHostSavesAndQueuesAgainWithEqualBits) {
  expect_saved_and_queued_again({}, {kBin + "/lockstep", "run", "--nproc-per-node", "2", "--max-restarts", "1"});
}

}  // namespace
}  // namespace lockstep
