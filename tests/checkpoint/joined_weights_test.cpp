// Tests weights that ranks have in parts and rank 0 writes as one file: its bytes, in and out of checkpoints, and what
// happens if a rank fails or has read something else.
#include "lockstep/checkpoint/joined_weights.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/comm/factory.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Fault = FaultyFileSystem::Fault;

// Several dtypes, a tensor without elements, and one that is sent in several pieces.
NamedTensors joined_sample() {
  const auto numbers = [](std::int64_t count) { return torch::arange(count, torch::kFloat).mul(0.5).add(1); };
  return {{"layers.10.weight", numbers(7 * 11).view({7, 11})},
          {"layers.9.bias", numbers(13).to(torch::kBFloat16)},
          {"none", torch::empty({0, 3})},
          {"count", torch::tensor(42, torch::kLong)},
          {"mask", torch::arange(5).remainder(2).to(torch::kBool)},
          {"table", numbers(3'000'001)}};
}

std::string file_of(const std::string& path, const NamedTensors& weights) {
  write_safetensors(path, weights);
  return read_file(path);
}

std::string error_on(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void join_on(const std::string& engine, int ranks,
             const std::function<void(const std::shared_ptr<Communicator>&)>& body) {
  const auto rank = [&](const Membership& membership) { body(make_communicator(engine, membership)); };
  engine == "shm" ? run_ranks_as_processes(ranks, rank) : run_ranks_as_threads(ranks, rank);
}

CheckpointContent joined_content(std::int64_t step, int rank, int ranks) {
  CheckpointContent content = sample_content(step, rank, ranks, true);
  content.weights.clear();
  content.weight_parts = {parts_of_rank(joined_sample(), rank, ranks)};
  content.joins_weight_parts = true;
  return content;
}

CheckpointWriterOptions joined_options(const std::string& output_dir, FileSystem* files = nullptr) {
  CheckpointWriterOptions options;
  options.output_dir = output_dir;
  options.timeout = std::chrono::seconds(20);
  options.file_system = files;
  return options;
}

TEST(JoinedWeights, AreTheFileThatARankWithAllOfThemWouldWrite) {
  const TemporaryFolder folder;
  const std::string want = file_of(folder / "want", joined_sample());
  for (const char* engine : {"gloo", "tcp", "shm"}) {
    for (const int ranks : {1, 2, 3}) {
      const std::string path = folder / (engine + std::to_string(ranks));
      join_on(engine, ranks, [&](const std::shared_ptr<Communicator>& group) {
        bool is_finished = false;
        write_joined_weights(*group, path, parts_of_rank(joined_sample(), group->rank(), ranks),
                             [&] { is_finished = true; });
        EXPECT_EQ(is_finished, group->rank() == 0);
        EXPECT_TRUE(std::filesystem::exists(path));
      });
      EXPECT_TRUE(read_file(path) == want) << engine << " " << ranks;
    }
  }
}

// Each rank has some elements of each tensor, in no order.
TEST(JoinedWeights, MayBeCutInAnyWay) {
  const TemporaryFolder folder;
  const std::string want = file_of(folder / "want", joined_sample());
  join_on("tcp", 3, [&](const std::shared_ptr<Communicator>& group) {
    TensorParts parts;
    for (const auto& [name, tensor] : joined_sample()) {
      const std::int64_t numel = tensor.numel(), place = (group->rank() + static_cast<int>(name.size())) % 3;
      const std::int64_t begin = numel * place / 3, end = numel * (place + 1) / 3;
      parts.insert(parts.begin(), {name, tensor.sizes().vec(), begin, end, tensor.reshape({-1}).slice(0, begin, end)});
    }
    write_joined_weights(*group, folder / "got", parts, [] {});
  });
  EXPECT_TRUE(read_file(folder / "got") == want);
}

TEST(JoinedWeights, ThatLackElementsOrHaveThemTwiceAreRefusedOnEveryRank) {
  const TemporaryFolder folder;
  for (const bool is_gap : {true, false}) {
    join_on("tcp", 2, [&](const std::shared_ptr<Communicator>& group) {
      const at::Tensor values = torch::arange(4, torch::kFloat);
      const std::int64_t begin = group->rank() == 0 ? 0 : is_gap ? 3 : 1;
      const TensorParts parts{{"w", {6}, begin, begin + (is_gap ? 2 : 4), values.slice(0, 0, is_gap ? 2 : 4)}};
      const std::string error = error_on([&] { write_joined_weights(*group, folder / "w", parts, [] {}); });
      EXPECT_TRUE(says(error, is_gap ? "elements 2 to 3 of \"w\" are in no part" : "\"w\" are there twice")) << error;
    });
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
}

TEST(JoinedWeights, ThatCannotBeWrittenAreAnErrorOnEveryRankAndThenCan) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "taken");
  join_on("tcp", 2, [&](const std::shared_ptr<Communicator>& group) {
    const TensorParts parts = parts_of_rank(joined_sample(), group->rank(), 2);
    const std::string error = error_on([&] { write_joined_weights(*group, folder / "none/w", parts, [] {}); });
    EXPECT_TRUE(says(error, "none/w")) << error;
    EXPECT_TRUE(group->rank() == 0 || says(error, "rank 0 failed")) << error;
    write_joined_weights(*group, folder / "w", parts, [] {});
  });
  EXPECT_TRUE(read_file(folder / "w") == file_of(folder / "want", joined_sample()));
}

TEST(JoinedCheckpoint, HoldsOneFileOfWeights) {
  const TemporaryFolder folder;
  const std::string want = file_of(folder / "want", joined_sample());
  for (const bool background : {false, true}) {
    join_on("gloo", 3, [&](const std::shared_ptr<Communicator>& group) {
      CheckpointWriterOptions options = joined_options(folder / (background ? "background" : "foreground"));
      options.background = background;
      CheckpointWriter writer(options, group);
      for (const std::int64_t step : {4, 8}) writer.save(joined_content(step, group->rank(), 3));
      // Training continues meanwhile.
      at::Tensor sum = torch::ones({3});
      group->all_reduce(sum);
      writer.wait();
    });
    for (const char* step : {"4", "8"}) {
      const std::string path = folder / (std::string(background ? "background" : "foreground") + "/checkpoint-" + step);
      EXPECT_TRUE(read_file(path + "/model.safetensors") == want);
      EXPECT_FALSE(std::filesystem::exists(path + "/model_shard-00001-of-00003.safetensors"));
      const Checkpoint checkpoint(path);
      EXPECT_EQ(checkpoint.number_of_weights(), joined_sample().size());
    }
  }
}

TEST(JoinedCheckpoint, IsAbsentIfADiskIsFullAndTheNextOneIsWhole) {
  const TemporaryFolder folder;
  for (const int victim : {0, 2}) {
    join_on("tcp", 3, [&](const std::shared_ptr<Communicator>& group) {
      // On rank 0 within the file of weights, which the others send; on rank 2 in its own file, after that.
      const std::int64_t at_byte = victim == 0 ? 6'000'000 : 100;
      FaultyFileSystem files(Fault::Full, -1, group->rank() == victim ? at_byte : -1);
      CheckpointWriter writer(joined_options(folder / "out", &files), group);
      writer.save(joined_content(4, group->rank(), 3));
      const std::string error = error_on([&] { writer.save(joined_content(5, group->rank(), 3)); });
      EXPECT_TRUE(says(error, "No space left")) << group->rank() << " " << error;
      EXPECT_TRUE(group->rank() == victim || says(error, "rank " + std::to_string(victim) + " failed")) << error;
      files.free_space();
      writer.save(joined_content(6, group->rank(), 3));
      writer.wait();
    });
    EXPECT_EQ(steps_in(folder / "out"), std::vector<std::int64_t>{6});
    EXPECT_TRUE(hidden_names_in(folder / "out").empty());
  }
}

TEST(JoinedCheckpoint, IsAbsentIfARankDies) {
  const TemporaryFolder folder;
  const auto body = [&](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("tcp", membership);
    FaultyFileSystem files(Fault::Kill, group->rank() == 1 ? 2 : -1);
    CheckpointWriter writer(joined_options(folder / "out", &files), group);
    writer.save(joined_content(2, group->rank(), 3));
    const std::string error = error_on([&] { writer.wait(); });
    EXPECT_TRUE(says(error, "rank 1")) << error;
  };
  const std::vector<RankOutcome> ends = ranks_as_processes(3, body);
  EXPECT_EQ(ends[1].signal, SIGKILL);
  for (const std::size_t rank : {0, 2}) EXPECT_FALSE(ends[rank].failed) << ends[rank].text;
  EXPECT_TRUE(steps_in(folder / "out").empty());
}

TEST(LoadedParts, AreComparedWithWhatRank0Reads) {
  const TemporaryFolder folder;
  join_on("tcp", 2, [&](const std::shared_ptr<Communicator>& group) {
    CheckpointWriterOptions options = joined_options(folder / "out");
    options.background = false;
    CheckpointWriter writer(options, group);
    const Checkpoint saved(writer.save(joined_content(1, group->rank(), 2)));
    TensorParts parts = parts_of_rank(joined_sample(), group->rank(), 2);
    for (TensorPart& part : parts) part.tensor = torch::zeros_like(part.tensor);
    saved.load_weight_parts(parts);
    check_parts_as_saved(*group, saved, parts, "the weights");
    if (group->rank() == 1) parts.back().tensor.view({-1})[1] = -1;
    const std::string error = error_on([&] { check_parts_as_saved(*group, saved, parts, "the weights"); });
    EXPECT_TRUE(says(error, "the weights: rank 1 has read something other")) << error;
  });
}

}  // namespace
}  // namespace lockstep
