// Tests `lockstep train --survive-lost-ranks`: real processes that are killed while they train. The weights and the
// optimizer's state must be those of the undisturbed training.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/unique_fd.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/process_of_rank.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

constexpr int kSteps = 24;
// A training that still runs when a process has taken a lost rank's place, also on busy cores.
constexpr int kManySteps = 600;

constexpr int kShortEpoch = 80;  // samples: 5 steps
// A training of one epoch.
constexpr int kLongSteps = 120;
constexpr int kLongEpoch = 16 * kLongSteps;

std::vector<std::string> job(int ranks, const std::string& output, const std::vector<std::string>& launcher_flags,
                             const std::vector<std::string>& more, int steps = kSteps, int samples = kShortEpoch) {
  std::vector<std::string> words =
      review_classification(output, {"--virtual-shards",
                                     "4",
                                     "--per-device-train-batch-size",
                                     "4",
                                     "--max-length",
                                     "32",
                                     "--max-train-samples",
                                     std::to_string(samples),
                                     "--max-steps",
                                     std::to_string(steps),
                                     "--save-steps",
                                     std::to_string(steps / 3),
                                     "--logging-steps",
                                     "1",
                                     "--eval-strategy",
                                     "steps",
                                     "--eval-steps",
                                     std::to_string(steps * 5 / 12),
                                     "--max-eval-samples",
                                     "20",
                                     "--validation-file",
                                     std::string(LOCKSTEP_SOURCE_DIR) + "/data/reviews-test.csv"});
  words = joined_words(std::move(words), more);
  std::vector<std::string> all{std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "run", "--nproc-per-node",
                               std::to_string(ranks)};
  all = joined_words(std::move(all), launcher_flags);
  return joined_words(std::move(all), words);
}

std::string result_in(const std::string& output, int steps) {
  const std::string last = output + "/checkpoint-" + std::to_string(steps);
  return read_file(output + "/model.safetensors") + read_file(last + "/model.safetensors") +
         read_file(last + "/optimizer.safetensors");
}

// The undisturbed training, which writes the optimizer into one file, too, if the update is not fused.
const std::string& undisturbed(int steps, int samples = kShortEpoch) {
  static std::map<std::pair<int, int>, std::string> results;
  std::string& result = results[{steps, samples}];
  if (!result.empty()) return result;
  const TemporaryFolder folder;
  const ProgramEnd end =
      run_program(job(2, folder / "out", {}, {"--fuse", "false"}, steps, samples), {}, std::chrono::seconds(300));
  if (end.code != 0) throw std::runtime_error(end.out + end.err);
  return result = result_in(folder / "out", steps);
}

Deadline in_time() { return Deadline::after(std::chrono::seconds(240)); }

// Waits until the training has logged `step` updates in all.
bool wait_for_step(RunningProgram& program, int step) {
  const auto logged = [&] {
    int count = 0;
    for (std::size_t at = 0; (at = program.out().find("{'loss'", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  while (logged() < step) {
    if (!program.wait_for_more(in_time())) return false;
  }
  return true;
}

void kill_rank(const RunningProgram& program, int rank, int signal = SIGKILL) {
  const auto pid = process_of_rank(program.pid(), rank);
  ASSERT_TRUE(pid) << "rank " << rank << " has ended already";
  ::kill(*pid, signal);
}

void expect_undisturbed(RunningProgram& program, const std::string& output, int steps = kSteps,
                        int samples = kShortEpoch) {
  const ProgramEnd end = program.wait(in_time());
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(result_in(output, steps) == undisturbed(steps, samples)) << end.out << end.err;
}

const std::vector<std::string> kSurvive{"--survive-lost-ranks", "true"};

TEST(Survival, TheOtherRankContinuesWhicheverIsKilled) {
  for (int victim = 0; victim < test_size(1, 2); ++victim) {
    const TemporaryFolder folder;
    RunningProgram program(job(2, folder / "out", {}, kSurvive));
    ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
    kill_rank(program, victim);
    expect_undisturbed(program, folder / "out");
    EXPECT_NE(program.err().find("rank " + std::to_string(victim) + " (local rank"), std::string::npos);
    EXPECT_NE(program.err().find("The others continue with 1 rank"), std::string::npos) << program.err();
    // Callbacks that print once on each host still have a rank that does.
    const std::string state = read_file(folder / "out/trainer_state.json");
    EXPECT_NE(state.find("\"is_local_process_zero\": true"), std::string::npos) << state;
  }
}

// The inode of the memory that a launcher has made for its job, which this process of it has mapped; empty: none.
std::string job_memory_of(const std::filesystem::path& process) {
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string place, rights, offset, device, inode, path;
    words >> place >> rights >> offset >> device >> inode >> path;
    if (path == "/memfd:lockstep-job") return inode;
  }
  return "";
}

std::string job_memory_of_rank(const RunningProgram& program, int rank) {
  const auto pid = process_of_rank(program.pid(), rank);
  return pid ? job_memory_of("/proc/" + std::to_string(*pid)) : "";
}

bool is_mapped(const std::string& memory) {
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    if (job_memory_of(process.path()) == memory) return true;
  }
  return false;
}

// Those that were stopped first cannot survive each other.
void kill_all_ranks(const RunningProgram& program, int ranks) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    for (int rank = 0; rank < ranks; ++rank) kill_rank(program, rank, signal);
  }
}

// Seconds: two trainings, one of which starts its ranks again.
TEST(Survival, AllRanksAreKilledAndContinueFromTheLaunchersMemory) {
  const TemporaryFolder folder;
  RunningProgram program(job(3, folder / "out", {"--max-restarts", "1"}, kSurvive));
  ASSERT_TRUE(wait_for_step(program, 5)) << program.out() << program.err();
  const std::string memory = job_memory_of_rank(program, 1);
  EXPECT_NE(memory, "");
  kill_all_ranks(program, 3);
  expect_undisturbed(program, folder / "out");
  EXPECT_NE(program.err().find("the launcher still has the training's state in memory"), std::string::npos)
      << program.err();
  EXPECT_NE(program.err().find("the training continues from the launcher's memory, after update "), std::string::npos)
      << program.err();
  std::size_t logged = 0;
  for (std::size_t at = 0; (at = program.out().find("{'loss'", at)) != std::string::npos; ++at) ++logged;
  EXPECT_LE(logged, kSteps + 2U) << "updates were made twice\n" << program.out();
  EXPECT_FALSE(is_mapped(memory)) << "memory of the job is left";
}

TEST(Survival, MemoryGoesWithAKilledLauncher) {
  const TemporaryFolder folder;
  RunningProgram program(job(2, folder / "out", {}, kSurvive, kManySteps));
  ASSERT_TRUE(wait_for_step(program, 2)) << program.out() << program.err();
  const std::string memory = job_memory_of_rank(program, 1);
  EXPECT_NE(memory, "");
  ::kill(program.pid(), SIGKILL);
  program.wait(in_time());
  const Deadline deadline = in_time();
  while (is_mapped(memory) && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_mapped(memory)) << "memory of the job is left";
}

TEST(SurvivalLong, FourBecomeThreeAndASpareMakesThemFourAgain) {
  const TemporaryFolder folder;
  RunningProgram program(job(4, folder / "out", {"--max-restarts", "2", "--warm-spares"}, kSurvive, kManySteps));
  ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
  kill_rank(program, 2);
  ASSERT_TRUE(program.wait_for("has joined in the place of rank 2: 4 ranks", in_time())) << program.err();
  kill_rank(program, 0);
  expect_undisturbed(program, folder / "out", kManySteps);
}

TEST(SurvivalLong, TwoDeathsInARow) {
  const TemporaryFolder folder;
  RunningProgram program(job(4, folder / "out", {}, kSurvive));
  ASSERT_TRUE(wait_for_step(program, 4)) << program.out() << program.err();
  kill_rank(program, 0);
  kill_rank(program, 3);
  ASSERT_TRUE(wait_for_step(program, 8)) << program.out() << program.err();
  kill_rank(program, 1);
  expect_undisturbed(program, folder / "out");
}

// Nobody is to take the place of a rank that stops because it was asked to.
TEST(Survival, ARankThatIsAskedToEndStopsAllOfThem) {
  const TemporaryFolder folder;
  RunningProgram program(job(2, folder / "out", {}, kSurvive, kManySteps));
  ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
  kill_rank(program, 1, SIGTERM);
  const ProgramEnd end = program.wait(in_time());
  EXPECT_EQ(end.code, 128 + SIGTERM) << end.out << end.err;
  EXPECT_NE(end.out.find("Stopped by signal 15"), std::string::npos) << end.out;
  EXPECT_EQ(end.err.find("The others continue"), std::string::npos) << end.err;
}

// It still holds the output folder's lock when the next rank, which ends it, is ready to take its place.
TEST(SurvivalLong, AFirstRankThatStandsStillIsEndedAndSurvived) {
  const TemporaryFolder folder;
  RunningProgram program(job(2, folder / "out", {"--timeout", "2"}, kSurvive));
  ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
  kill_rank(program, 0, SIGSTOP);
  expect_undisturbed(program, folder / "out");
}

// Kills rank 0 of so many, and holds its output folder as it would on a host that was cut off, where its launcher ends
// it later than the other ranks give it up. @return  the lock
UniqueFd kill_first_rank_and_hold_its_folder(const RunningProgram& program, const std::string& output, int ranks) {
  UniqueFd lock(::open((output + "/.lockstep.lock").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(lock);
  for (int rank = 1; rank < ranks; ++rank) kill_rank(program, rank, SIGSTOP);  // until the lock is this process's
  kill_rank(program, 0);
  EXPECT_EQ(::flock(lock.get(), LOCK_EX), 0);
  for (int rank = 1; rank < ranks; ++rank) kill_rank(program, rank, SIGCONT);
  return lock;
}

// How many steps of the long training have no loss in metrics.jsonl.
std::size_t steps_missing_in(const std::string& output) {
  std::set<int> steps;
  std::istringstream lines(read_file(output + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("loss")) steps.insert(json["step"].get<int>());
  }
  return kLongSteps - steps.size();
}

const std::vector<std::string> kShortTimeout{"--timeout", "3"};
// Two timeouts of collectives.
Deadline later() { return Deadline::after(std::chrono::seconds(6)); }

TEST(SurvivalLong, TheTrainingContinuesUntilItMustWriteIntoAFolderThatIsHeld) {
  const TemporaryFolder folder;
  RunningProgram program(job(3, folder / "out", kShortTimeout, kSurvive, kLongSteps, kLongEpoch));
  ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
  UniqueFd lock = kill_first_rank_and_hold_its_folder(program, folder / "out", 3);
  EXPECT_TRUE(program.wait_for("is still held by ", in_time())) << program.err();
  EXPECT_TRUE(program.wait_for(" waits for the output folder", in_time())) << program.err();
  EXPECT_FALSE(program.wait_for("rank 1 (local rank 1", later())) << program.err();
  lock.reset();
  expect_undisturbed(program, folder / "out", kLongSteps, kLongEpoch);
  EXPECT_NE(program.err().find("The others continue with 2 ranks"), std::string::npos) << program.err();
  EXPECT_LE(steps_missing_in(folder / "out"), 1U) << "rank 0 may have died just before it wrote its last one";
  EXPECT_TRUE(wait_for_step(program, kLongSteps - 1)) << "steps are not shown: " << program.out();
}

TEST(SurvivalLong, ARankIsLostWhileTheFirstOneWaitsForTheFolder) {
  const TemporaryFolder folder;
  RunningProgram program(job(4, folder / "out", kShortTimeout, kSurvive, kLongSteps, kLongEpoch));
  ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
  UniqueFd lock = kill_first_rank_and_hold_its_folder(program, folder / "out", 4);
  EXPECT_TRUE(program.wait_for(" waits for the output folder", in_time())) << program.err();
  kill_rank(program, 3);
  EXPECT_FALSE(program.wait_for("is given up", later())) << program.err();
  lock.reset();
  expect_undisturbed(program, folder / "out", kLongSteps, kLongEpoch);
  EXPECT_NE(program.err().find("The others continue with 2 ranks"), std::string::npos) << program.err();
  EXPECT_LE(steps_missing_in(folder / "out"), 1U) << "rank 0 may have died just before it wrote its last one";
}

TEST(SurvivalLong, TheTrainingEndsWhileItsFolderIsHeld) {
  const TemporaryFolder folder;
  std::vector<std::string> words =
      job(3, folder / "out", kShortTimeout, joined_words(kSurvive, {"--save-strategy", "no"}), kLongSteps, kLongEpoch);
  for (const std::string flag : {"--save-steps", "--eval-strategy", "--eval-steps"}) {
    const auto at = std::find(words.begin(), words.end(), flag);
    ASSERT_NE(at, words.end());
    words.erase(at, at + 2);
  }
  RunningProgram program(words);
  ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
  UniqueFd lock = kill_first_rank_and_hold_its_folder(program, folder / "out", 3);
  EXPECT_TRUE(program.wait_for("step 120: the epoch's end waits for the output folder", in_time())) << program.err();
  EXPECT_FALSE(program.wait_for("rank 1 (local rank 1", later())) << program.err();
  EXPECT_FALSE(std::filesystem::exists(folder / "out/model.safetensors"));
  lock.reset();
  const ProgramEnd end = program.wait(in_time());
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  const std::string weights = read_file(folder / "out/model.safetensors");
  EXPECT_EQ(undisturbed(kLongSteps, kLongEpoch).compare(0, weights.size(), weights), 0);
  EXPECT_LE(steps_missing_in(folder / "out"), 1U) << "rank 0 may have died just before it wrote its last one";
}

// It waits for others as long as they do, not for the 30 minutes that an engine waits by default.
TEST(SurvivalLong, ARankThatJoinedGivesUpOneThatStandsStill) {
  const TemporaryFolder folder;
  RunningProgram program(job(2, folder / "out", {"--max-restarts", "1", "--timeout", "5"}, kSurvive, kManySteps));
  ASSERT_TRUE(wait_for_step(program, 3)) << program.out() << program.err();
  kill_rank(program, 1);
  ASSERT_TRUE(program.wait_for("has joined in the place of rank 1: 2 ranks", in_time())) << program.err();
  const auto logs = program.out().size();
  while (program.out().size() < logs + 1000) ASSERT_TRUE(program.wait_for_more(in_time())) << program.err();
  kill_rank(program, 0, SIGSTOP);
  expect_undisturbed(program, folder / "out", kManySteps);
}

// Moments that no test chooses: in the gradients' exchange, the update, an evaluation, a checkpoint, and while a group
// forms or lets a new process in.
TEST(Survival, KillsAtAnyMoment) {
  for (unsigned seed = 1; seed <= test_size(1U, 4U); ++seed) {
    const TemporaryFolder folder;
    RunningProgram program(job(3, folder / "out", {"--max-restarts", "9", "--warm-spares"}, kSurvive));
    ASSERT_TRUE(wait_for_step(program, 2)) << program.out() << program.err();
    std::mt19937 random(seed);
    for (int kills = 0; kills < 2; ++kills) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
      if (const auto pid = process_of_rank(program.pid(), static_cast<int>(random() % 3))) ::kill(*pid, SIGKILL);
    }
    SCOPED_TRACE(seed);
    expect_undisturbed(program, folder / "out");
  }
}

TEST(Survival, AFailureOfAllRanksIsReportedAsBefore) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_program(
      job(2, folder / "out", {}, joined_words(kSurvive, {"--learning-rate", "1e30", "--max-grad-norm", "0"})), {},
      std::chrono::seconds(240));
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("the weights contain NaN or infinity"), std::string::npos) << end.err;
}

TEST(Survival, NeedsVirtualShardsAndTheLauncher) {
  const TemporaryFolder folder;
  const std::vector<std::string> train =
      review_classification(folder / "out", joined_words(kSurvive, {"--max-steps", "1"}));
  const ProgramEnd without_shards = run_program(train);
  EXPECT_EQ(without_shards.code, 2);
  EXPECT_NE(without_shards.err.find("survive_lost_ranks needs virtual shards"), std::string::npos)
      << without_shards.err;
  const ProgramEnd alone = run_program(joined_words(train, {"--virtual-shards", "2"}));
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("start it with lockstep run"), std::string::npos) << alone.err;
}

}  // namespace
}  // namespace lockstep
