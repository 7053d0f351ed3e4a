// Tests weights that ranks save in parts: how they are cut, loaded by other ranks, merged, and what is refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/files/part_metadata.h"
#include "lockstep/checkpoint/merge_weights.h"
#include "lockstep/comm/factory.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// Sizes that no number of ranks divides, several dtypes, a scalar, and tensors with one element and with none.
NamedTensors mixed_weights() {
  const auto numbers = [](std::int64_t count) { return torch::arange(count, torch::kFloat).mul(0.5).add(1); };
  return {{"z.weight", numbers(7 * 11).view({7, 11})},
          {"a.bias", numbers(13).to(torch::kBFloat16)},
          {"none", torch::empty({0, 3})},
          {"position_ids", torch::arange(17, torch::kLong).unsqueeze(0)},
          {"count", torch::tensor(42, torch::kLong)},
          {"mask", torch::arange(5).remainder(2).to(torch::kBool)},
          {"one", torch::full({1, 1}, 3.25)}};
}

NamedTensors zeros_like(const NamedTensors& tensors) {
  NamedTensors zeros;
  for (const auto& [name, tensor] : tensors) zeros.emplace_back(name, torch::zeros_like(tensor));
  return zeros;
}

void expect_equal(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(torch::equal(got[i].second, want[i].second)) << want[i].first;
}

// A checkpoint of step 1 that `world_size` ranks write; rank r gives `parts_of(r)`.
void save_parts(const std::string& folder, int world_size, const std::function<TensorParts(int)>& parts_of) {
  run_ranks_as_threads(world_size, [&](const Membership& membership) {
    CheckpointWriterOptions options;
    options.output_dir = folder;
    options.background = false;
    CheckpointWriter writer(options, make_communicator("gloo", membership));
    CheckpointContent content;
    content.step = 1;
    content.weight_parts = {parts_of(membership.rank)};
    writer.save(content);
  });
}

void save_shares(const std::string& folder, int world_size, const NamedTensors& weights) {
  save_parts(folder, world_size, [&](int rank) { return parts_of_rank(weights, rank, world_size); });
}

std::string refusal_of_loading(const std::string& folder, const NamedTensors& targets) {
  try {
    Checkpoint(folder).load_weights(targets);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(WeightParts, AreCutByBytesInOrder) {
  // 24 + 3 * 2 + 2 * 8 = 46 bytes: cut at 23, which is within the last float of "a", and the next one begins at 24.
  const NamedTensors tensors{{"a", torch::arange(6, torch::kFloat).view({2, 3})},
                             {"b", torch::arange(3).to(torch::kHalf)},
                             {"c", torch::arange(2, torch::kLong)}};
  const TensorParts first = parts_of_rank(tensors, 0, 2);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].name, "a");
  EXPECT_EQ(first[0].end, 6);
  const TensorParts second = parts_of_rank(tensors, 1, 2);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].begin, 0);
  EXPECT_EQ(second[1].tensor.numel(), 2);
  // In three: cuts at 15 and 30 bytes. The first float from 15 on is number 4; 30 is where "c" begins.
  EXPECT_EQ(parts_of_rank(tensors, 0, 3).at(0).end, 4);
  EXPECT_EQ(parts_of_rank(tensors, 1, 3).at(0).begin, 4);
  EXPECT_EQ(parts_of_rank(tensors, 1, 3).size(), 2u);
  EXPECT_EQ(parts_of_rank(tensors, 2, 3).size(), 1u);
  EXPECT_TRUE(parts_of_rank(tensors, 0, 2)[0].tensor.is_alias_of(tensors[0].second));
}

TEST(WeightParts, OfAnyNumberOfRanksHaveEachElementOnceAndEquallyManyBytes) {
  const NamedTensors weights = mixed_weights();
  std::int64_t total = 0;
  for (const auto& item : weights) total += static_cast<std::int64_t>(item.second.nbytes());
  for (const int ranks : {1, 2, 3, 5, 64, 1000}) {
    std::map<std::string, std::int64_t> next;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t bytes = 0;
      for (const TensorPart& part : parts_of_rank(weights, rank, ranks)) {
        EXPECT_EQ(part.begin, next[part.name]);
        next[part.name] = part.end;
        bytes += static_cast<std::int64_t>(part.tensor.nbytes());
      }
      EXPECT_LE(bytes, total / ranks + 8 + 1) << ranks;
    }
    EXPECT_EQ(next.size(), weights.size());
    for (const auto& [name, tensor] : weights) EXPECT_EQ(next[name], tensor.numel()) << name;
  }
}

TEST(WeightParts, AreOneFileForEachRankThatOneRankLoadsWhole) {
  const NamedTensors weights = mixed_weights();
  for (const int ranks : {1, 2, 3}) {
    const TemporaryFolder folder;
    save_shares(folder.path(), ranks, weights);
    EXPECT_FALSE(std::filesystem::exists(folder / "checkpoint-1/model.safetensors"));
    for (int rank = 1; rank <= ranks; ++rank) {
      const std::string name = "model_shard-0000" + std::to_string(rank) + "-of-0000" + std::to_string(ranks);
      EXPECT_TRUE(std::filesystem::exists(folder / ("checkpoint-1/" + name + ".safetensors"))) << name;
    }
    NamedTensors loaded = zeros_like(weights);
    Checkpoint(folder / "checkpoint-1").load_weights(loaded);
    expect_equal(loaded, weights);
  }
}

TEST(WeightParts, AreLoadedIntoTensorsThatAreNotContiguous) {
  const TemporaryFolder folder;
  save_shares(folder.path(), 2, mixed_weights());
  NamedTensors loaded = zeros_like(mixed_weights());
  loaded[0].second = torch::zeros({11, 7}).t();
  Checkpoint(folder / "checkpoint-1").load_weights(loaded);
  expect_equal(loaded, mixed_weights());
}

TEST(WeightParts, AreCutAgainByRanksOfAnotherNumber) {
  const NamedTensors weights = mixed_weights();
  const TemporaryFolder folder;
  save_shares(folder.path(), 3, weights);
  for (const int ranks : {2, 5}) {
    for (int rank = 0; rank < ranks; ++rank) {
      TensorParts wanted = parts_of_rank(weights, rank, ranks);
      for (TensorPart& part : wanted) part.tensor = torch::zeros_like(part.tensor);
      Checkpoint(folder / "checkpoint-1").load_weight_parts(wanted);
      const TensorParts want = parts_of_rank(weights, rank, ranks);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(torch::equal(wanted[i].tensor, want[i].tensor)) << want[i].name << " on rank " << rank;
      }
    }
  }
}

TEST(WeightParts, AreLoadedFromWeightsThatOneRankSavedWhole) {
  const TemporaryFolder folder;
  CheckpointWriterOptions options;
  options.output_dir = folder.path();
  options.background = false;
  CheckpointWriter(options).save(sample_content(3));
  TensorParts wanted{{"layer.weight", {8, 6}, 5, 9, torch::zeros({4})}};
  Checkpoint(folder / "checkpoint-3").load_weight_parts(wanted);
  EXPECT_TRUE(torch::equal(wanted[0].tensor, sample_content(3).weights[0].second.view({-1}).slice(0, 5, 9)));
  wanted[0].sizes = {6, 8};
  EXPECT_THROW(Checkpoint(folder / "checkpoint-3").load_weight_parts(wanted), Error);
}

TEST(MergedWeights, HaveTheBytesOfAnUnshardedSave) {
  const NamedTensors weights = mixed_weights();
  const TemporaryFolder folder;
  write_safetensors(folder / "whole.safetensors", weights);
  for (const int ranks : {1, 2, 3, 7}) {
    const std::string out = folder / std::to_string(ranks);
    save_shares(out, ranks, weights);
    const Checkpoint checkpoint(out + "/checkpoint-1");
    EXPECT_EQ(number_of_models(checkpoint), 1u);
    std::uint64_t seen = 0;
    const MergedWeights merged =
        merge_weights(checkpoint, out + "/merged", 0, [&](std::uint64_t bytes) { seen = bytes; });
    EXPECT_EQ(merged.tensors, weights.size());
    EXPECT_EQ(read_file(merged.path), read_file(folder / "whole.safetensors")) << ranks;
    EXPECT_EQ(seen, std::filesystem::file_size(merged.path));
  }
}

TEST(WeightParts, ThatAreMissingOrTwiceOrContradictEachOtherAreRefused) {
  const NamedTensors weights{{"w", torch::arange(10, torch::kFloat)}};
  const auto part = [&](std::int64_t begin, std::int64_t end, std::vector<std::int64_t> sizes = {10}) {
    return TensorParts{{"w", std::move(sizes), begin, end, torch::arange(begin, end, torch::kFloat)}};
  };
  const auto refusal = [&](const TensorParts& first, const TensorParts& second) {
    const TemporaryFolder folder;
    save_parts(folder.path(), 2, [&](int rank) { return rank == 0 ? first : second; });
    return refusal_of_loading(folder / "checkpoint-1", zeros_like(weights));
  };
  EXPECT_EQ(refusal(part(0, 4), part(4, 10)), "no error");
  EXPECT_NE(refusal(part(0, 4), part(6, 10)).find("elements 4 to 6 of \"w\" are in no part"), std::string::npos);
  EXPECT_NE(refusal(part(0, 4), part(3, 10)).find("elements 3 to 4 of \"w\" are there twice"), std::string::npos);
  EXPECT_NE(refusal(part(0, 4), part(4, 9)).find("elements 9 to 10 of \"w\" are in no part"), std::string::npos);
  EXPECT_NE(refusal(part(0, 4), part(4, 10, {2, 5})).find("has another shape or dtype"), std::string::npos);
}

TEST(WeightParts, ThatWereRemovedOrChangedAreNamedWithTheFix) {
  const TemporaryFolder folder;
  save_shares(folder.path(), 2, mixed_weights());
  const std::string shard = folder / "checkpoint-1/model_shard-00002-of-00002.safetensors";
  const std::string bytes = read_file(shard);
  std::string changed = bytes;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  std::ofstream(shard, std::ios::binary) << changed;
  std::string refusal = refusal_of_loading(folder / "checkpoint-1", mixed_weights());
  EXPECT_NE(refusal.find("model_shard-00002-of-00002.safetensors was changed"), std::string::npos) << refusal;
  std::filesystem::remove(shard);
  refusal = refusal_of_loading(folder / "checkpoint-1", mixed_weights());
  EXPECT_NE(refusal.find("model_shard-00002-of-00002.safetensors is missing"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("fix: resume from another checkpoint, or copy this one again"), std::string::npos) << refusal;
}

TEST(WeightParts, AreNotOneFileAndSayWhichCommandMakesIt) {
  const TemporaryFolder folder;
  save_shares(folder.path(), 2, mixed_weights());
  try {
    static_cast<void>(Checkpoint(folder / "checkpoint-1").weights());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("lockstep merge-weights"), std::string::npos) << error.what();
  }
}

TEST(WeightParts, AreRefusedBesideWholeWeights) {
  const TemporaryFolder folder;
  CheckpointWriterOptions options;
  options.output_dir = folder.path();
  options.background = false;
  CheckpointContent content = sample_content(1);
  content.weight_parts = {parts_of_rank(content.weights, 0, 1)};
  CheckpointWriter writer(options);
  EXPECT_THROW(writer.save(content), Error);
  content.weights.clear();
  content.weight_parts[0][0].end -= 1;
  EXPECT_THROW(writer.save(content), Error);
  EXPECT_TRUE(steps_in(folder.path()).empty());
}

TEST(WeightParts, AreOfTheSnapshotWhateverHappensToTheTensorsAfterwards) {
  const TemporaryFolder folder;
  CheckpointWriterOptions options;
  options.output_dir = folder.path();
  CheckpointContent content;
  const NamedTensors weights{{"w", torch::arange(1000, torch::kFloat)}};
  content.step = 2;
  content.weight_parts = {parts_of_rank(weights, 0, 1)};
  {
    CheckpointWriter writer(options);
    writer.save(content);
    weights[0].second.zero_();
  }
  const NamedTensors loaded{{"w", torch::zeros({1000})}};
  Checkpoint(folder / "checkpoint-2").load_weights(loaded);
  EXPECT_TRUE(torch::equal(loaded[0].second, torch::arange(1000, torch::kFloat)));
}

TEST(PartPlaces, ThatContradictThemselvesAreRefused) {
  const auto refuses = [](const std::string& text) {
    try {
      parse_part_places(text, "shard");
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refuses(R"({"w": {"sizes": [2, 3], "begin": 1, "end": 6}})"));
  EXPECT_TRUE(refuses(R"({"w": {"sizes": [2, 3], "begin": 1, "end": 7}})"));
  EXPECT_TRUE(refuses(R"({"w": {"sizes": [2, 3], "begin": 4, "end": 3}})"));
  EXPECT_TRUE(refuses(R"({"w": {"sizes": [2, 3], "begin": -1, "end": 3}})"));
  EXPECT_TRUE(refuses(R"({"w": {"sizes": [4294967296, 4294967296], "begin": 0, "end": 3}})"));
  EXPECT_TRUE(refuses(R"({"w": {"sizes": [2, 3], "begin": 0.0, "end": 3}})"));
  EXPECT_TRUE(refuses(R"({"w": {"sizes": [2, 3], "begin": 0}})"));
  EXPECT_TRUE(refuses("[]"));
}

}  // namespace
}  // namespace lockstep
