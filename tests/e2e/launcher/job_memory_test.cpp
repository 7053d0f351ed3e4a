// Tests trainings whose ranks all end, under `lockstep run`: they continue from the launcher's memory if, and only if,
// it has the state of this training.
#include <string>

#include "tests/e2e/launch.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

constexpr const char* kContinues = "the training continues from the launcher's memory";
constexpr const char* kCannot = "the job's memory cannot be used";
const Words kAllDie{"0", "die", "01:6:start"};

// @param words  of trainer_rank: START WHAT VALUE...
ProgramEnd run_trainer(const std::string& folder, const Words& words, const Words& flags = {},
                       const std::string& steps = "12", int ranks = 2) {
  Words program{kBin + "/trainer_rank", folder, steps};
  program.insert(program.end(), words.begin(), words.end());
  Words all{"--nproc-per-node=" + std::to_string(ranks), "--max-restarts=3"};
  all.insert(all.end(), flags.begin(), flags.end());
  return run(all, program, {{"OMP_NUM_THREADS", "1"}});
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// "bits 0123456789abcdef"
std::string trained_bits(const ProgramEnd& end) {
  const auto at = end.out.find("bits ");
  return at == std::string::npos ? "" : end.out.substr(at, 21);
}

// "log 0123456789abcdef"
std::string logged_bits(const ProgramEnd& end) {
  const auto at = end.out.find("log ");
  return at == std::string::npos ? "" : end.out.substr(at, 20);
}

// The bits of a training that nothing disturbs.
std::string calm(const Words& words = {}, const std::string& steps = "12") {
  const TemporaryFolder folder;
  const ProgramEnd end = run_trainer(folder.path(), words, {}, steps);
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_NE(trained_bits(end), "") << end.out;
  return trained_bits(end);
}

void expect_bits(const ProgramEnd& end, const std::string& bits) {
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_EQ(trained_bits(end), bits) << end.out << end.err;
}

// Seconds: all ranks die and start again at several moments.
TEST(JobMemory, AllRanksContinueWhereverTheyDie) {
  const TemporaryFolder calm_folder;
  const ProgramEnd undisturbed = run_trainer(calm_folder.path(), {});
  const std::string bits = trained_bits(undisturbed), log = logged_bits(undisturbed);
  ASSERT_NE(log, "") << undisturbed.out << undisturbed.err;
  const Words all{"6:writing", "6:start", "6:gradients", "7:updated", "8:saved"};
  for (const std::string& place : Words(all.begin(), test_size(all.begin() + 1, all.end()))) {
    SCOPED_TRACE(place);
    const TemporaryFolder folder;
    const ProgramEnd end = run_trainer(folder.path(), {"0", "die", "01:" + place});
    expect_bits(end, bits);
    EXPECT_EQ(logged_bits(end), log) << "losses, norms and rates of all steps";
    EXPECT_TRUE(has(end.err, kContinues)) << end.err;
    EXPECT_FALSE(has(end.err, kCannot)) << end.err;
  }
}

// The first rank is killed before it has written what it has logged, which the others have logged as well.
TEST(JobMemory, TheNextFirstRankWritesWhatTheLostOneHasNot) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_trainer(folder.path(), {"0", "metrics", "1", "0", "die", "0:6:logged"});
  expect_bits(end, calm());
  const std::string log = content(folder / "metrics.jsonl");
  for (int step = 1; step <= 12; ++step) {
    const std::regex row("\"kind\":\"log\",\"step\":" + std::to_string(step) + ",[^\n]*\"loss\":");
    EXPECT_EQ(std::distance(std::sregex_iterator(log.begin(), log.end(), row), std::sregex_iterator()), 1)
        << "step " << step << " in " << log;
  }
}

TEST(JobMemoryLong, AllRanksDieTwice) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      run_trainer(folder.path(), joined(kAllDie, {"1", "die", "01:6:writing", "2", "die", "01:8:start"}));
  expect_bits(end, calm());
  EXPECT_TRUE(has(end.err, "from the launcher's memory, after update 8")) << end.err;
}

// Without a word it would continue with the weights of the first start.
TEST(JobMemory, AnotherTrainingDoesNotTakeItOver) {
  const std::vector<Words> all{{"weights", "2"}, {"frozen", "2"}, {"buffers", "0.5"}, {"rate", "0.02"},
                               {"rows", "60"},   {"data", "2"},   {"length", "4"},    {"model", "negated"}};
  for (const Words& other : std::vector<Words>(all.begin(), test_size(all.begin() + 1, all.end()))) {
    SCOPED_TRACE(other.front());
    const TemporaryFolder folder;
    const ProgramEnd end = run_trainer(folder.path(), joined(joined(kAllDie, {"1"}), other));
    expect_bits(end, calm(joined({"0"}, other)));
    EXPECT_TRUE(has(end.err, kCannot)) << end.err;
    EXPECT_FALSE(has(end.err, kContinues)) << end.err;
  }
}

// The first training's notes and lanes have the numbers of the second one's first update, if it died in its own first
// one. Norms and counts are kept twice, for even updates and for odd ones: the second one must not take the other
// place.
TEST(JobMemoryLong, NothingIsLeftOfAnotherTraining) {
  const Words other{"1", "weights", "2", "2", "weights", "2"};
  const std::string bits = calm({"0", "weights", "2"});
  for (const char* first : {"01:0:writing", "01:5:start", "01:6:start"}) {
    for (const char* second : {"01:0:gradients", "01:0:writing"}) {
      SCOPED_TRACE(first + std::string(", then ") + second);
      const TemporaryFolder folder;
      const ProgramEnd end = run_trainer(folder.path(), joined({"0", "die", first, "1", "die", second}, other));
      expect_bits(end, bits);
      EXPECT_TRUE(has(end.err, kContinues)) << end.err;
    }
  }
}

// How often each weight was updated is known from the checkpoint alone until that update is finished.
TEST(JobMemoryLong, AllRanksDieInTheFirstUpdateAfterACheckpoint) {
  const TemporaryFolder before, folder;
  ASSERT_EQ(run_trainer(before.path(), {}).code, 0);
  const ProgramEnd end =
      run_trainer(folder.path(), {"*", "resume", before.path() + "/checkpoint-4", "0", "die", "01:4:writing"});
  expect_bits(end, calm());
  EXPECT_TRUE(has(end.err, "from the launcher's memory, after update 5")) << end.err;
}

// Until they have met, each rank has other weights.
TEST(JobMemoryLong, TheFirstRanksWeightsCount) {
  const Words own{"*", "weights", "rank", "*", "frozen", "rank"};
  const TemporaryFolder folder;
  const ProgramEnd end = run_trainer(folder.path(), joined(own, kAllDie));
  expect_bits(end, calm(own));
  EXPECT_TRUE(has(end.err, kContinues)) << end.err;
}

// The memory has only weights that are trained.
TEST(JobMemoryLong, FrozenWeightsOfACheckpointAreNotLost) {
  const TemporaryFolder before, folder, undisturbed;
  ASSERT_EQ(run_trainer(before.path(), {"*", "frozen", "2"}).code, 0);
  const Words resumed{"*", "resume", before.path() + "/checkpoint-4"};
  const std::string bits = trained_bits(run_trainer(undisturbed.path(), resumed));
  ASSERT_NE(bits, "");
  ASSERT_NE(bits, calm());
  const ProgramEnd end = run_trainer(folder.path(), joined(resumed, kAllDie));
  expect_bits(end, bits);
  EXPECT_TRUE(has(end.err, "the weights that are not trained")) << end.err;
}

TEST(JobMemoryLong, AProcessThatJoinsGetsFrozenWeightsOfACheckpoint) {
  const TemporaryFolder before, folder, undisturbed;
  ASSERT_EQ(run_trainer(before.path(), {"*", "frozen", "2"}).code, 0);
  const Words resumed{"*", "resume", before.path() + "/checkpoint-4"};
  const std::string steps = "1500";
  const std::string bits = trained_bits(run_trainer(undisturbed.path(), resumed, {}, steps));
  ASSERT_NE(bits, "");
  const ProgramEnd end =
      run_trainer(folder.path(), joined(resumed, {"0", "die", "1:6:start", "*", "slow", "2"}), {}, steps);
  expect_bits(end, bits);
  EXPECT_TRUE(has(end.err, "has joined in the place of rank 1")) << end.err;
}

// It has joined, and the only rank that has the state dies while it passes it on.
TEST(JobMemoryLong, AProcessThatDidNotGetTheStateLeavesItThere) {
  const TemporaryFolder folder;
  const Words words{"*", "slow", "2", "0", "die", "1:6:start", "0", "die", "0:0:passing"};
  const std::string steps = "1500";
  const ProgramEnd end = run_trainer(folder.path(), words, {}, steps);
  expect_bits(end, calm({}, steps));
  EXPECT_TRUE(has(end.err, "has joined in the place of rank 1")) << end.err;
  EXPECT_TRUE(has(end.err, kContinues)) << end.err;
}

// The ranks were asked to stop after the update in which they died.
TEST(JobMemoryLong, AStopThatWasAskedForIsNotForgotten) {
  const std::string bits = calm({"0", "stop", "6"});
  ASSERT_NE(bits, calm());
  const TemporaryFolder folder;
  const ProgramEnd end = run_trainer(folder.path(), {"0", "stop", "6", "0", "die", "01:6:writing"});
  expect_bits(end, bits);
  EXPECT_TRUE(has(end.err, "from the launcher's memory, after update 7")) << end.err;
}

// Rank 1 is some stages behind rank 0, because it has waited for rank 2. All that it knows itself is still true, and
// the weights are in memory that it has, too.
TEST(JobMemoryLong, ARankThatIsBehindContinuesIfTheOthersAreLost) {
  const TemporaryFolder folder;
  const Words words{"0", "die", "2:6:logged", "0", "await", "6", "0", "die", "0:0:giving"};
  const ProgramEnd end = run_trainer(folder.path(), words, {}, "12", 3);
  expect_bits(end, calm());
  EXPECT_TRUE(has(end.err, "rank 2 (local rank 2")) << end.err;
  EXPECT_TRUE(has(end.err, "rank 0 (local rank 0")) << end.err;
  EXPECT_FALSE(has(end.err, "all ranks are started again")) << end.err;
}

// All steps are done, and the ranks compare how long they have waited for each other.
TEST(JobMemoryLong, ARankThatDiesAtTheEndIsSurvived) {
  for (const std::string rank : {"0", "1"}) {
    SCOPED_TRACE(rank);
    const TemporaryFolder folder;
    const ProgramEnd end = run_trainer(folder.path(), {"0", "die", rank + ":12:ended"});
    expect_bits(end, calm());
    EXPECT_FALSE(has(end.err, "all ranks are started again")) << end.err;
  }
}

TEST(JobMemoryLong, ACheckpointNamedByHandIsOlder) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_trainer(folder.path(), joined(kAllDie, {"1", "resume", folder.path() + "/checkpoint-4"}));
  expect_bits(end, calm());
  EXPECT_TRUE(has(end.err, "after update 6. Checkpoints are older, and not looked at")) << end.err;
}

// The second start has written a checkpoint that is newer than what the first one left.
TEST(JobMemoryLong, ATrainingThatDoesNotUseItMakesItInvalid) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_trainer(folder.path(), joined(kAllDie, {"1", "fuse", "0", "1", "die", "01:10:start", "1",
                                                                     "resume", "true", "2", "resume", "true"}));
  expect_bits(end, calm());
  EXPECT_FALSE(has(end.err, kContinues)) << end.err;
  EXPECT_TRUE(has(end.out, "checkpoint-8: step 8")) << end.out;
}

// An older launcher has none, and some containers close what a program inherits.
TEST(JobMemoryLong, AProcessThatJoinsWithoutItLetsNobodyFuse) {
  const TemporaryFolder folder;
  const std::string steps = "1500";
  const std::string shell = "[ -z $LOCKSTEP_MEMBER ] || unset LOCKSTEP_MEMORY_FD; exec \"$0\" \"$@\"";
  const ProgramEnd end =
      run({"--nproc-per-node=2", "--max-restarts=3"},
          {"sh", "-c", shell, kBin + "/trainer_rank", folder.path(), steps, "0", "die", "1:6:start", "*", "slow", "2"},
          {{"OMP_NUM_THREADS", "1"}});
  expect_bits(end, calm({}, steps));
  EXPECT_TRUE(has(end.err, "has joined in the place of rank 1")) << end.err;
  EXPECT_TRUE(has(end.err, "fuse: the launcher holds no memory that outlives the ranks")) << end.err;
}

// It would fail there again.
TEST(JobMemory, AnErrorOfTheProgramIsNotContinued) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_trainer(folder.path(), {"0", "throw", "6", "1", "resume", "true"});
  expect_bits(end, calm());
  EXPECT_FALSE(has(end.err, kContinues)) << end.err;
  EXPECT_TRUE(has(end.out, "checkpoint-4: step 4")) << end.out;
}

}  // namespace
}  // namespace lockstep
