// Tests that no training enters a folder in which ranks of another one are present, also without their first one. The
// ranks are real processes, which are killed.
#include "lockstep/train/folder/training_folder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/failure_cause.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/processor/topology.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/folder/standing_process.h"

namespace lockstep {
namespace {

// What a rank of these tests can be asked to do.
constexpr char kTake = 't', kEnter = 'e', kSucceed = 's', kKeep = 'k', kLeave = 'l';

struct FolderJob {
  std::string name;
  std::string launcher;
  int generation = 0;
  bool survives = true;
};

std::string done_by(TrainingFolder& folder, char what) {
  using std::chrono::milliseconds;
  std::string holder;
  try {
    if (what == kTake) folder.take(OutputFolderLock::Awaited::SameJob, milliseconds(0));
    if (what == kEnter) folder.enter(milliseconds(0));
    if (what == kKeep) folder.keep();
    if (what == kSucceed && !folder.try_take(holder)) return "held by " + holder;
  } catch (const std::exception& error) {
    const FailureCause* const cause = cause_of(error);
    const bool is_final = cause != nullptr && cause->kind == FailureCause::Kind::Usage;
    return (is_final ? "final: " : "") + std::string(error.what());
  }
  return "done";
}

// A process of a job that trains into a folder.
std::unique_ptr<StandingProcess> rank_of(const FolderJob& job, const std::string& folder) {
  TrainingArguments args;
  args.output_dir = folder;
  args.survive_lost_ranks = job.survives;
  auto held = std::make_shared<std::optional<TrainingFolder>>(args);
  return std::make_unique<StandingProcess>([=](char what) mutable -> std::string {
    for (const auto& [name, value] : {std::pair<const char*, std::string>{"TORCHELASTIC_RUN_ID", job.name},
                                      {"LOCKSTEP_JOB", job.launcher},
                                      {"LOCKSTEP_GENERATION", std::to_string(job.generation)}}) {
      ::setenv(name, value.c_str(), 1);
    }
    if (what != kLeave) return done_by(held->value(), what);
    held->reset();
    return "done";
  });
}

const FolderJob kA{"a", "launcher of a"};
const FolderJob kB{"b", "launcher of b"};
const FolderJob kNameless{"", ""};

bool has_text(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string presence_file(const std::string& folder) { return folder + "/" + FolderPresence::kFile; }

class TrainingFolderOfLostRank : public ::testing::TestWithParam<FolderJob> {};

// The first rank is killed, the others stand still, and another training checks whether the folder is free.
TEST_P(TrainingFolderOfLostRank, NoOtherTrainingBeginsWhileARankIsThere) {
  const TemporaryFolder folder;
  const auto first = rank_of(GetParam(), folder.path());
  const auto second = rank_of(GetParam(), folder.path());
  const auto other = rank_of(kB, folder.path());
  ASSERT_EQ(first->ask(kTake), "done");
  ASSERT_EQ(second->ask(kEnter), "done");
  EXPECT_TRUE(has_text(other->ask(kTake), "process " + std::to_string(first->pid())));
  const std::string gone = std::to_string(first->pid());
  first->kill();
  const std::string text = other->ask(kTake);
  for (const std::string& part :
       {"final: another training writes into this folder: process " + std::to_string(second->pid()) + " on host " +
            host_name() + ", since 20",
        "; its first rank, process " + gone + ", has ended", std::string("end that training")}) {
    EXPECT_TRUE(has_text(text, part)) << part << " in " << text;
  }
  // The other one has not disturbed it, and comes in when all ranks have ended.
  EXPECT_EQ(second->ask(kSucceed), "done");
  EXPECT_TRUE(has_text(other->ask(kTake), "another training"));
  second->kill();
  EXPECT_EQ(other->ask(kTake), "done");
  EXPECT_EQ(other->ask(kLeave), "done");
  EXPECT_FALSE(std::filesystem::exists(presence_file(folder.path())));
}

INSTANTIATE_TEST_SUITE_P(Jobs, TrainingFolderOfLostRank, ::testing::Values(kA, kNameless),
                         [](const auto& test) { return test.param.name.empty() ? "nameless" : "named"; });

TEST(TrainingFolder, RanksThatFollowAndJoinKeepOthersOutAfterTheFirstTwo) {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<StandingProcess>> ranks;
  for (int i = 0; i < 3; ++i) ranks.push_back(rank_of(kA, folder.path()));
  ASSERT_EQ(ranks[0]->ask(kTake), "done");
  ASSERT_EQ(ranks[1]->ask(kEnter), "done");
  ranks[0]->kill();
  ASSERT_EQ(ranks[1]->ask(kSucceed), "done");
  ASSERT_EQ(ranks[2]->ask(kEnter), "done") << "it takes the lost rank's place";
  ranks[1]->kill();
  EXPECT_TRUE(has_text(rank_of(kB, folder.path())->ask(kTake), "process " + std::to_string(ranks[2]->pid())));
  EXPECT_EQ(ranks[2]->ask(kSucceed), "done");
}

// As `lockstep run --nnodes 2` does, without --rdzv-id: no name says that it is one job.
TEST(TrainingFolder, RanksOfTwoLaunchersFollowTheFirstOne) {
  const TemporaryFolder folder;
  const auto first = rank_of({"", "launcher of node 0"}, folder.path());
  const auto second = rank_of({"", "launcher of node 1"}, folder.path());
  ASSERT_EQ(first->ask(kTake), "done");
  EXPECT_EQ(second->ask(kEnter), "done");
  first->kill();
  EXPECT_TRUE(has_text(rank_of(kB, folder.path())->ask(kTake), "process " + std::to_string(second->pid())));
}

// A rank of another host may live until its launcher notices that it was given up.
TEST(TrainingFolder, TheNextStartOfTheSameLauncherBeginsWhereOldRanksAreLeft) {
  const TemporaryFolder folder;
  const auto first = rank_of(kA, folder.path());
  const auto left = rank_of(kA, folder.path());
  ASSERT_EQ(first->ask(kTake), "done");
  ASSERT_EQ(left->ask(kEnter), "done");
  first->kill();
  FolderJob again = kA;
  again.generation = 1;
  EXPECT_EQ(rank_of(again, folder.path())->ask(kTake), "done");
  // A job of the same name that another launcher has started may be another one: the old ranks are awaited.
  again.launcher = "another";
  const std::string text = rank_of(again, folder.path())->ask(kTake);
  EXPECT_EQ(text.rfind("another training writes into this folder", 0), 0U) << "not final: " << text;
}

// They do not wait for the end of a training that has begun meanwhile, and then train over its results.
TEST(TrainingFolder, RanksThatAreStartedAgainRefuseATrainingOfAnotherJob) {
  for (const bool has_name : {true, false}) {
    const TemporaryFolder folder;
    FolderJob again = kA, theirs = kB;
    again.generation = 1;
    if (!has_name) again.name = theirs.name = "";  // as `lockstep run` without --rdzv-id
    const auto other = rank_of(theirs, folder.path());
    ASSERT_EQ(other->ask(kTake), "done");
    EXPECT_TRUE(has_text(rank_of(again, folder.path())->ask(kTake), "final: another training"));
  }
}

TEST(TrainingFolder, OneOfThoseThatBeginAtTheSameMomentGetsIt) {
  const TemporaryFolder folder;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<StandingProcess>> ranks;
    for (int i = 0; i < 4; ++i) ranks.push_back(rank_of({std::to_string(i), std::to_string(i)}, folder.path()));
    for (const auto& rank : ranks) rank->begin(kTake);
    int taken = 0;
    std::string last;
    for (const auto& rank : ranks) {
      last = rank->answer();
      if (last == "done") ++taken;
    }
    EXPECT_EQ(taken, 1) << last;
  }
}

TEST(TrainingFolder, AFirstRankNoticesThatItsFolderWasRemovedAndTakenByAnother) {
  const TemporaryFolder place;
  const std::string folder = place / "out";
  const auto first = rank_of(kNameless, folder);
  const auto other = rank_of(kNameless, folder);
  ASSERT_EQ(first->ask(kTake), "done");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(first->ask(kKeep), "done");
  EXPECT_TRUE(has_text(other->ask(kTake), "process " + std::to_string(first->pid()))) << "it is locked again";
  std::filesystem::remove_all(folder);
  EXPECT_EQ(other->ask(kTake), "done");
  EXPECT_TRUE(has_text(first->ask(kKeep), "process " + std::to_string(other->pid())));
}

// Somebody removes the locks, and another training begins and ends before this one looks.
TEST(TrainingFolder, AFirstRankNoticesThatAnotherTrainingWasInItsFolder) {
  const TemporaryFolder folder;
  const auto first = rank_of(kA, folder.path());
  ASSERT_EQ(first->ask(kTake), "done");
  const auto follower = rank_of(kA, folder.path());
  ASSERT_EQ(follower->ask(kEnter), "done");
  const auto remove_locks = [&] {
    std::filesystem::remove(folder / OutputFolderLock::kFile);
    std::filesystem::remove(folder / FolderPresence::kFile);
  };
  remove_locks();
  EXPECT_EQ(first->ask(kKeep), "done") << "nobody was there";
  remove_locks();
  const auto other = rank_of(kB, folder.path());
  ASSERT_EQ(other->ask(kTake), "done");
  ASSERT_EQ(other->ask(kLeave), "done");
  if (!TrainingMark::read(folder.path())) GTEST_SKIP() << "the file system keeps no attributes";
  const std::string answer = first->ask(kKeep);
  EXPECT_TRUE(has_text(answer, "final: another training has begun in this folder meanwhile, and ended: process " +
                                   std::to_string(other->pid())))
      << answer;
}

// What is in the folder of a training is its own: checkpoints, for example, which it removes.
TEST(TrainingFolder, NoTrainingBeginsInTheFolderOfAnother) {
  const TemporaryFolder folder;
  const std::string checkpoint = folder / "checkpoint-200";
  std::filesystem::create_directories(checkpoint);
  const auto first = rank_of(kA, folder.path());
  ASSERT_EQ(first->ask(kTake), "done");
  const auto second = rank_of(kA, folder.path());
  ASSERT_EQ(second->ask(kEnter), "done");
  const std::string refusal =
      "final: another training writes into " + std::filesystem::canonical(folder.path()).string();
  for (const std::string& inside : {checkpoint, folder / "new/runs"}) {
    const std::string answer = rank_of(kB, inside)->ask(kTake);
    EXPECT_TRUE(has_text(answer, refusal + ", process " + std::to_string(first->pid()))) << answer;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "new")) << "it leaves nothing there";
  EXPECT_EQ(rank_of(kA, checkpoint)->ask(kTake), "done") << "a program may train in parts";
  first->kill();
  EXPECT_TRUE(has_text(rank_of(kB, checkpoint)->ask(kTake), refusal + ", process " + std::to_string(second->pid())));
  second->kill();
  EXPECT_EQ(rank_of(kB, checkpoint)->ask(kTake), "done");
}

TEST(TrainingFolder, NoTrainingBeginsAroundACheckpointInWhichAnotherRuns) {
  const TemporaryFolder folder;
  const auto inside = rank_of(kA, folder / "checkpoint-200");
  ASSERT_EQ(inside->ask(kTake), "done");
  const std::string answer = rank_of(kB, folder.path())->ask(kTake);
  EXPECT_TRUE(has_text(answer, "checkpoint-200, process " + std::to_string(inside->pid()))) << answer;
}

TEST(TrainingFolder, ARankNoticesInTheLostOnesPlaceThatItsFolderWasTaken) {
  const TemporaryFolder place;
  const std::string folder = place / "out";
  const auto first = rank_of(kA, folder);
  const auto second = rank_of(kA, folder);
  const auto other = rank_of(kB, folder);
  ASSERT_EQ(first->ask(kTake), "done");
  ASSERT_EQ(second->ask(kEnter), "done");
  first->kill();
  std::filesystem::remove_all(folder);
  ASSERT_EQ(other->ask(kTake), "done");
  EXPECT_TRUE(has_text(second->ask(kSucceed), "process " + std::to_string(other->pid())));
  // If nobody has taken it, it continues.
  other->kill();
  EXPECT_EQ(second->ask(kSucceed), "done");
}

TEST(TrainingFolder, HostsWithoutTheFolderMakeItOnlyIfTheirRanksMayBecomeTheFirstOne) {
  for (const bool survives : {false, true}) {
    const TemporaryFolder place;
    FolderJob job = kA;
    job.survives = survives;
    const auto rank = rank_of(job, place / "out");
    EXPECT_EQ(rank->ask(kEnter), "done");
    EXPECT_EQ(std::filesystem::exists(place / "out"), survives);
    EXPECT_EQ(has_text(rank_of(kB, place / "out")->ask(kTake), "another training"), survives);
  }
}

TEST(TrainingFolder, WhatKilledProcessesHaveLeftKeepsNobodyOut) {
  const TemporaryFolder folder;
  write_file_atomically(presence_file(folder.path()), "not JSON");
  EXPECT_EQ(rank_of(kA, folder.path())->ask(kTake), "done");
  EXPECT_TRUE(std::filesystem::exists(presence_file(folder.path())));
  EXPECT_EQ(rank_of(kB, folder.path())->ask(kTake), "done");
}

}  // namespace
}  // namespace lockstep
