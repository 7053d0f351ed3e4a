// Tests ranks that write one checkpoint together, and agree on the checkpoint to resume from.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/checkpoint/state/world_remap.h"
#include "lockstep/comm/factory.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Group = std::shared_ptr<Communicator>;
using Fault = FaultyFileSystem::Fault;

CheckpointWriterOptions rank_options(const std::string& folder, FileSystem& files) {
  CheckpointWriterOptions options;
  options.output_dir = folder;
  options.file_system = &files;
  options.timeout = std::chrono::seconds(20);
  return options;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs ranks as processes if they are to share memory, else as threads over sockets.
void on_ranks(const std::string& engine, int world_size, const std::function<void(Group)>& body) {
  const auto rank = [&](const Membership& membership) { body(make_communicator(engine, membership)); };
  engine == "shm" ? run_ranks_as_processes(world_size, rank) : run_ranks_as_threads(world_size, rank);
}

class SeveralRanks : public ::testing::TestWithParam<std::tuple<const char*, int, bool>> {};

TEST_P(SeveralRanks, WriteOneCheckpointAndReadItBack) {
  const auto [engine, world_size, is_sharded] = GetParam();
  const TemporaryFolder folder;
  const auto body = [&, world = world_size, sharded = is_sharded](const Group& group) {
    FaultyFileSystem files;
    CheckpointWriter writer(rank_options(folder / "out", files), group);
    for (const std::int64_t step : {4, 8, 12}) {
      EXPECT_EQ(writer.save(sample_content(step, group->rank(), world, sharded)),
                folder / ("out/checkpoint-" + std::to_string(step)));
    }
    writer.wait();
    group->barrier();
    const CheckpointSearch search = find_newest_checkpoint(folder / "out", *group);
    ASSERT_TRUE(search.newest);
    expect_sample(*search.newest, 12, world);
    const ResumeState mine = resume_state(*search.newest, group->rank(), world, false);
    EXPECT_FALSE(mine.is_remapped);
    EXPECT_EQ(mine.notice, "");
    EXPECT_EQ(mine.samplers.at("train").position, 48);
    EXPECT_TRUE(torch::equal(mine.rank_tensors.at(0).second,
                             sample_content(12, group->rank(), world).rank_tensors.at(0).second));
    expect_sample(open_checkpoint(folder / "out/checkpoint-4", *group), 4, world);
  };
  on_ranks(engine, world_size, body);
  EXPECT_EQ(steps_in(folder / "out"), (std::vector<std::int64_t>{4, 8, 12}));
  EXPECT_TRUE(hidden_names_in(folder / "out").empty());
}

INSTANTIATE_TEST_SUITE_P(All, SeveralRanks,
                         ::testing::Combine(::testing::Values("gloo", "shm"), ::testing::Values(2, 3),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + std::to_string(std::get<1>(test.param)) +
                                  (std::get<2>(test.param) ? "sharded" : "whole");
                         });

TEST(SeveralRanksFail, TogetherWhenTheDiskOfOneIsFullAndThenSave) {
  const TemporaryFolder folder;
  for (const int victim : {0, 2}) {
    on_ranks("gloo", 3, [&](const Group& group) {
      FaultyFileSystem files(Fault::Full, group->rank() == victim ? 6 : -1);
      CheckpointWriter writer(rank_options(folder / "out", files), group);
      writer.save(sample_content(4, group->rank(), 3, true));
      const std::string error = error_of([&] { writer.save(sample_content(5, group->rank(), 3, true)); });
      EXPECT_TRUE(holds(error, "No space left")) << error;
      EXPECT_TRUE(group->rank() == victim || holds(error, "rank " + std::to_string(victim) + " failed")) << error;
      files.free_space();
      writer.save(sample_content(6, group->rank(), 3, true));
      writer.wait();
      expect_sample(find_newest_checkpoint(folder / "out", *group).newest.value(), 6, 3);
    });
    EXPECT_EQ(steps_in(folder / "out"), std::vector<std::int64_t>{6});
    EXPECT_TRUE(hidden_names_in(folder / "out").empty());
  }
}

// Rank 0 fails, and is about to remove the folder that it has just emptied.
struct FolderMeeting {
  std::promise<void> is_emptied;
  std::promise<void> is_filled;
};

// Lets the other rank make a file in the folder before it is removed.
class RemovesLate : public FaultyFileSystem {
 public:
  explicit RemovesLate(FolderMeeting& meeting) : FaultyFileSystem(Fault::Full, -1, 0), meeting_(meeting) {}

  int remove_folder(const std::string& path) override {
    if (std::filesystem::path(path).filename().string()[0] == '.') {
      meeting_.is_emptied.set_value();
      EXPECT_EQ(meeting_.is_filled.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    }
    return FaultyFileSystem::remove_folder(path);
  }

 private:
  FolderMeeting& meeting_;
};

class CreatesLate : public FaultyFileSystem {
 public:
  explicit CreatesLate(FolderMeeting& meeting) : meeting_(meeting) {}

  int create(const std::string& path, mode_t mode) override {
    if (is_first_) meeting_.is_emptied.get_future().wait_for(std::chrono::seconds(20));
    const int fd = FaultyFileSystem::create(path, mode);
    if (std::exchange(is_first_, false)) meeting_.is_filled.set_value();
    return fd;
  }

 private:
  FolderMeeting& meeting_;
  bool is_first_ = true;
};

TEST(SeveralRanksFail, AndLeaveNoFolderThatOneFillsWhileAnotherRemovesIt) {
  const TemporaryFolder folder;
  FolderMeeting meeting;
  on_ranks("gloo", 2, [&](const Group& group) {
    RemovesLate removes(meeting);
    CreatesLate creates(meeting);
    FaultyFileSystem& files = group->rank() == 0 ? static_cast<FaultyFileSystem&>(removes) : creates;
    CheckpointWriter writer(rank_options(folder / "out", files), group);
    writer.save(sample_content(4, group->rank(), 2, true));
    const std::string error = error_of([&] { writer.wait(); });
    EXPECT_TRUE(holds(error, "No space left")) << error;
  });
  EXPECT_EQ(hidden_names_in(folder / "out"), std::vector<std::string>());
}

// As on a host that does not share the folder: what is written does not appear there.
class WritesElsewhere : public FileSystem {
 public:
  int create(const std::string& path, mode_t mode) override {
    const int file = FileSystem::create(path, mode);
    std::filesystem::remove(path);
    return file;
  }
};

TEST(SeveralRanksFail, IfTheFirstDoesNotSeeWhatAnotherHasWritten) {
  const TemporaryFolder folder;
  on_ranks("tcp", 2, [&](const Group& group) {
    WritesElsewhere elsewhere;
    FileSystem& files = group->rank() == 1 ? elsewhere : real_file_system();
    CheckpointWriter writer(rank_options(folder / "out", files), group);
    const std::string error = error_of([&] {
      writer.save(sample_content(4, group->rank(), 2, true));
      writer.wait();
    });
    EXPECT_TRUE(holds(error, "rank 0 does not see it")) << error;
  });
  EXPECT_TRUE(steps_in(folder / "out").empty());
}

TEST(SeveralRanksFail, WhenTheySaveDifferentSteps) {
  const TemporaryFolder folder;
  on_ranks("gloo", 2, [&](const Group& group) {
    FaultyFileSystem files;
    CheckpointWriter writer(rank_options(folder / "out", files), group);
    writer.save(sample_content(4 + group->rank(), group->rank(), 2));
    const std::string error = error_of([&] { writer.wait(); });
    EXPECT_TRUE(holds(error, "rank 1 saves step 5, but rank 0 saves step 4")) << error;
  });
  EXPECT_TRUE(steps_in(folder / "out").empty());
}

class DyingRank : public ::testing::TestWithParam<std::tuple<int, int>> {};

// A dying rank leaves no partial checkpoint; the others get an error, and older checkpoints survive.
TEST_P(DyingRank, LeavesNothingHalf) {
  const auto [victim, call] = GetParam();
  const TemporaryFolder folder;
  const auto body = [&, dies = victim, at = call](const Membership& membership) {
    const Group group = make_communicator("gloo", membership);
    FaultyFileSystem whole;
    {
      CheckpointWriter writer(rank_options(folder / "out", whole), group);
      writer.save(sample_content(1, group->rank(), 3, true));
      writer.wait();
    }
    group->barrier();
    FaultyFileSystem files(Fault::Kill, group->rank() == dies ? at : -1);
    CheckpointWriter writer(rank_options(folder / "out", files), group);
    writer.save(sample_content(2, group->rank(), 3, true));
    const std::string error = error_of([&] { writer.wait(); });
    EXPECT_TRUE(holds(error, "checkpoint was not written") || dies == 0) << error;
    EXPECT_TRUE(holds(error, "rank " + std::to_string(dies)) || dies == 0) << error;
    EXPECT_NE(error, "no error");
  };
  const std::vector<RankOutcome> ends = ranks_as_processes(3, body);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (static_cast<int>(rank) == victim) {
      EXPECT_EQ(ends[rank].signal, SIGKILL);
    } else {
      EXPECT_FALSE(ends[rank].failed) << "rank " << rank << ": " << ends[rank].text;
    }
  }
  const CheckpointSearch search = find_newest_checkpoint(folder / "out");
  ASSERT_TRUE(search.newest);
  EXPECT_TRUE(search.damaged.empty()) << search.notice();
  expect_sample(*search.newest, 1, 3);
}

// Rank 0's first calls make the folder and its files, the others' their files.
INSTANTIATE_TEST_SUITE_P(Places, DyingRank, ::testing::Combine(::testing::Values(0, 1), ::testing::Values(0, 3, 8, 14)),
                         [](const auto& test) {
                           return "rank" + std::to_string(std::get<0>(test.param)) + "call" +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST(Agreement, PassesOverADamagedCheckpointOnEveryRank) {
  const TemporaryFolder folder;
  on_ranks("gloo", 2, [&](const Group& group) {
    FaultyFileSystem files;
    CheckpointWriter writer(rank_options(folder / "out", files), group);
    for (const std::int64_t step : {1, 2}) writer.save(sample_content(step, group->rank(), 2));
    writer.wait();
    group->barrier();
    if (group->rank() == 0) std::filesystem::remove(folder / "out/checkpoint-2/rng_state_1.safetensors");
    group->barrier();
    const CheckpointSearch search = find_newest_checkpoint(folder / "out", *group);
    ASSERT_TRUE(search.newest);
    EXPECT_EQ(search.newest->step(), 1);
    EXPECT_EQ(search.damaged.size(), group->rank() == 0 ? 1u : 0u);
    const std::string error = error_of([&] { open_checkpoint(folder / "out/checkpoint-2", *group); });
    EXPECT_TRUE(holds(error, "rng_state_1.safetensors is missing")) << error;
    EXPECT_FALSE(find_newest_checkpoint(folder / "nothing", *group).newest);
  });
}

TEST(Agreement, RefusesFoldersThatAreNotShared) {
  const TemporaryFolder folder;
  on_ranks("gloo", 2, [&](const Group& group) {
    const std::string own = folder / std::to_string(group->rank());
    FaultyFileSystem files;
    CheckpointWriter(rank_options(own, files)).save(sample_content(1 + group->rank()));
    group->barrier();
    const std::string missing = error_of([&] { open_checkpoint(own + "/checkpoint-1", *group); });
    EXPECT_TRUE(holds(missing, "checkpoint-1")) << missing;
    CheckpointWriter(rank_options(own, files)).save(sample_content(1));  // with another sequence number on each
    if (group->rank() == 0) CheckpointWriter(rank_options(own, files)).save(sample_content(1));
    group->barrier();
    const std::string other = error_of([&] { open_checkpoint(own + "/checkpoint-1", *group); });
    EXPECT_TRUE(holds(other, "not the same checkpoint") && holds(other, "file system that all ranks share")) << other;
  });
}

TEST(Replicas, ThatDifferByOneBitAreNamed) {
  on_ranks("gloo", 3, [&](const Group& group) {
    torch::Tensor weight = torch::ones({100});
    check_replicas_equal(*group, {{"w", weight}}, "weights");
    if (group->rank() == 2) weight[50] = std::nextafter(1.0F, 2.0F);
    const std::string error = error_of([&] { check_replicas_equal(*group, {{"w", weight}}, "weights of step 4"); });
    EXPECT_TRUE(holds(error, "weights of step 4 differ from rank 0's") && holds(error, "on rank 2\n")) << error;
  });
}

TEST(AnotherWorldSize, IsRefusedUnlessItIsAskedFor) {
  const TemporaryFolder folder;
  on_ranks("gloo", 3, [&](const Group& group) {
    FaultyFileSystem files;
    CheckpointWriter(rank_options(folder.path(), files), group).save(sample_content(5, group->rank(), 3, true));
  });
  const Checkpoint checkpoint(folder / "checkpoint-5");
  const std::string refusal = error_of([&] { resume_state(checkpoint, 0, 2, false); });
  EXPECT_TRUE(holds(refusal, "was written by 3 ranks; this job has 2") && holds(refusal, "start 3 ranks")) << refusal;
  for (int rank = 0; rank < 4; ++rank) {
    const ResumeState state = resume_state(checkpoint, rank, 4, true);
    EXPECT_TRUE(state.is_remapped);
    EXPECT_EQ(state.samplers.at("train").position, 15);  // each of 3 ranks took 20, together 60
    EXPECT_EQ(state.samplers.at("train").num_replicas, 4);
    EXPECT_EQ(state.generators.empty(), rank == 3);
    EXPECT_TRUE(state.rank_tensors.empty());
    EXPECT_TRUE(holds(state.notice, "this job has 4")) << state.notice;
    EXPECT_TRUE(holds(state.notice, "epoch 2 continues after 60 samples, 15 on each rank\n")) << state.notice;
  }
  EXPECT_TRUE(holds(resume_state(checkpoint, 0, 7, true).notice, "; 4 that do not divide by 7 are taken again"));
}

}  // namespace
}  // namespace lockstep
