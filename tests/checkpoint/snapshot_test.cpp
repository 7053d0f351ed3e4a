#include "lockstep/checkpoint/state/snapshot.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "lockstep/checkpoint/files/streaming_copy.h"

namespace lockstep {
namespace {

TEST(StreamingCopy, CopiesEveryByteAndNoOther) {
  for (const std::size_t bytes : {0, 1, 63, 64, 4095, 16383, 16384, 16385, 40000, 131072}) {
    for (const std::size_t from_offset : {0, 1, 13}) {
      std::string from(bytes + from_offset, '\0');
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + i / 251);
      const torch::Tensor memory = torch::full({static_cast<std::int64_t>(bytes) + 64}, 77, torch::kByte);
      streaming_copy(memory.data_ptr(), from.data() + from_offset, bytes);
      const auto* got = static_cast<const char*>(memory.data_ptr());
      EXPECT_EQ(std::string(got, bytes), from.substr(from_offset)) << bytes;
      EXPECT_EQ(std::string(got + bytes, 64), std::string(64, 77)) << bytes;
    }
  }
}

TEST(Snapshot, HoldsCopiesOfTensorsOfAnyLayout) {
  torch::manual_seed(3);
  const torch::Tensor big = torch::randn({700, 900});  // several pieces
  CheckpointContent content;
  content.step = 4;
  content.files["config.json"] = "{}";
  content.weights = {{"big", big},
                     {"transposed", big.t()},
                     {"every_other", big.slice(1, 0, 900, 2)},
                     {"half", big.to(torch::kHalf)},
                     {"conj", torch::complex(big, big).conj()},
                     {"scalar", torch::tensor(7)},
                     {"empty", torch::zeros({3, 0})}};
  ParameterState& state = content.optimizer.state["big"];
  state.tensors["exp_avg"] = torch::randn({700, 900});
  content.generators = {{"cpu", torch::arange(5, torch::kByte)}};
  content.rank_tensors = {{"sum", torch::tensor({1.5})}};
  CheckpointContent want = content;
  for (auto& item : want.weights) item.second = item.second.clone();
  want.optimizer.state["big"].tensors["exp_avg"] = state.tensors["exp_avg"].clone();

  SnapshotMemory memory;
  for (int round = 0; round < 2; ++round) {
    const CheckpointContent copy = memory.copy(content);
    const auto bytes = memory.size_bytes();
    if (round == 1) {
      big.zero_();
      state.tensors["exp_avg"].zero_();
    }
    EXPECT_EQ(copy.step, 4);
    EXPECT_EQ(copy.files, content.files);
    for (std::size_t i = 0; i < want.weights.size(); ++i) {
      EXPECT_TRUE(torch::equal(copy.weights[i].second, want.weights[i].second)) << want.weights[i].first;
    }
    EXPECT_TRUE(torch::equal(copy.optimizer.state.at("big").tensors.at("exp_avg"),
                             want.optimizer.state["big"].tensors["exp_avg"]));
    EXPECT_TRUE(torch::equal(copy.generators[0].second, torch::arange(5, torch::kByte)));
    EXPECT_EQ(copy.rank_tensors[0].second.item<double>(), 1.5);
    EXPECT_EQ(memory.size_bytes(), bytes) << "nothing is allocated again";
  }
}

}  // namespace
}  // namespace lockstep
