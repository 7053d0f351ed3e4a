#include "tests/checkpoint/sample_content.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_search.h"

namespace lockstep {
namespace {

torch::Tensor numbers(std::int64_t seed, at::IntArrayRef sizes, at::ScalarType dtype = torch::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return torch::arange(count, torch::kDouble).mul(1.25).add(static_cast<double>(seed)).reshape(sizes).to(dtype);
}

NamedTensors sample_weights(std::int64_t step) {
  return {{"layer.weight", numbers(step, {8, 6})},
          {"layer.bias", numbers(step + 1, {8})},
          {"count", numbers(step, {}, torch::kLong)}};
}

// The state of layer.weight on all ranks together; layer.bias is whole, on rank 0 only.
ParameterState whole_state(std::int64_t step) {
  ParameterState state;
  state.sizes = {8, 6};
  state.end = 48;
  state.step = step;
  state.tensors["exp_avg"] = numbers(step + 3, {8, 6});
  state.tensors["exp_avg_sq"] = numbers(step + 4, {8, 6});
  return state;
}

ParameterState share_of(const ParameterState& whole, int rank, int world_size) {
  ParameterState part = whole;
  part.begin = whole.end * rank / world_size;
  part.end = whole.end * (rank + 1) / world_size;
  for (auto& [kind, tensor] : part.tensors) tensor = tensor.reshape({-1}).slice(0, part.begin, part.end);
  return part;
}

SamplerState sample_position(std::int64_t step, int world_size) { return {7, 2, step * 4, 10'000, world_size}; }

void expect_tensors(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    const auto found =
        std::find_if(got.begin(), got.end(), [&name = name](const auto& item) { return item.first == name; });
    ASSERT_NE(found, got.end()) << name;
    EXPECT_TRUE(torch::equal(found->second, tensor)) << name;
  }
}

}  // namespace

CheckpointContent sample_content(std::int64_t step, int rank, int world_size, bool is_sharded) {
  CheckpointContent content;
  content.step = step;
  content.weights = sample_weights(step);
  content.trainer_state.emplace();
  content.trainer_state->global_step = step;
  content.trainer_state->epoch = 0.5 * static_cast<double>(step);
  content.files["config.json"] = "{\"step\": " + std::to_string(step) + "}\n";
  content.files["vocab.txt"] = std::string(3000, static_cast<char>('a' + step % 26));
  content.files["1_Pooling/config.json"] = "{\"pooling\": " + std::to_string(step) + "}\n";
  content.files["optimizer-notes.txt"] = "a program's own file, which begins as those of optimizers\n";
  content.optimizer.is_sharded = is_sharded;
  content.optimizer.groups = {{{"lr", 0.1 / static_cast<double>(step + 1)}, {"weight_decay", 0.01}}};
  content.optimizer.state["layer.weight"] =
      is_sharded ? share_of(whole_state(step), rank, world_size) : whole_state(step);
  if (!is_sharded || rank == world_size - 1) {
    ParameterState& bias = content.optimizer.state["layer.bias"];
    bias.sizes = {8};
    bias.end = 8;
    bias.step = step;
  }
  content.generators = {{"cpu", numbers(step + rank, {40}, torch::kByte)}};
  content.samplers["train"] = sample_position(step, world_size);
  content.rank_tensors = {{"gradient", numbers(step * 100 + rank, {5})}};
  return content;
}

void expect_sample(const Checkpoint& checkpoint, std::int64_t step, int world_size) {
  EXPECT_EQ(checkpoint.step(), step);
  EXPECT_EQ(checkpoint.world_size(), world_size);
  NamedTensors weights = sample_weights(step);
  for (auto& item : weights) item.second = torch::zeros_like(item.second);
  checkpoint.load_weights(weights);
  expect_tensors(weights, sample_weights(step));
  EXPECT_EQ(checkpoint.trainer_state().global_step, step);
  EXPECT_EQ(checkpoint.trainer_state().epoch, 0.5 * static_cast<double>(step));
  const CheckpointContent want = sample_content(step);
  for (const auto& [name, bytes] : want.files) EXPECT_EQ(checkpoint.file(name), bytes) << name;
  const OptimizerContent optimizer = checkpoint.optimizer();
  EXPECT_EQ(optimizer.groups, want.optimizer.groups);
  ASSERT_EQ(optimizer.state.size(), 2u);
  for (const auto& [name, state] : want.optimizer.state) {
    const ParameterState& got = optimizer.state.at(name);
    EXPECT_TRUE(got.is_whole()) << name;
    EXPECT_EQ(got.step, state.step) << name;
    EXPECT_EQ(got.sizes, state.sizes) << name;
    ASSERT_EQ(got.tensors.size(), state.tensors.size()) << name;
    for (const auto& [kind, tensor] : state.tensors) EXPECT_TRUE(torch::equal(got.tensors.at(kind), tensor)) << name;
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const CheckpointContent of_rank = sample_content(step, rank, world_size);
    expect_tensors(checkpoint.generators(rank), of_rank.generators);
    expect_tensors(checkpoint.rank_tensors(rank), of_rank.rank_tensors);
    const SamplerState position = checkpoint.samplers(rank).at("train");
    EXPECT_EQ(position.position, step * 4);
    EXPECT_EQ(position.seed, 7u);
    EXPECT_EQ(position.epoch, 2);
    EXPECT_EQ(position.num_replicas, world_size);
    EXPECT_EQ(position.dataset_size, 10'000);
  }
  EXPECT_TRUE(checkpoint.generators(world_size).empty());
}

std::vector<std::string> hidden_names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string()[0] == '.') names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (const auto step = step_of_checkpoint(entry.path().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace lockstep
