// Every pair of features on two ranks: the weights of one process that has the whole batch, or what the table of
// exclusions says.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/features/features.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr std::int64_t kTexts = 4;  // of a step, over both ranks
constexpr int kPairSteps = 3;

struct PairNetImpl : torch::nn::Module {
  explicit PairNetImpl(bool is_sparse)
      : table(torch::nn::EmbeddingOptions(6, 5).sparse(is_sparse)), body(make_linear(5, 4)) {
    register_module("table", table);
    register_module("body", body);
    kept = register_buffer("kept", torch::ones({2}));
    torch::NoGradGuard no_grad;
    table->weight.copy_(torch::arange(30, torch::kFloat).view({6, 5}).sin());
  }
  torch::Tensor forward(const torch::Tensor& ids) { return body->forward(table->forward(ids).mean(1)); }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear body{nullptr};
  torch::Tensor kept;
};
TORCH_MODULE(PairNet);

torch::Tensor text_of_step(int step, std::int64_t text) { return (torch::arange(3) * (text + 1) + step).remainder(6); }

torch::Tensor pair_loss(const torch::Tensor& scores) { return (scores - 0.5).square().mean(); }

const std::vector<Feature> kOfFuse{Feature::Fuse,        Feature::Stage2,      Feature::Stage3,
                                   Feature::HybridShard, Feature::Gradients16, Feature::OwnWeights};

// What a test asks for, and the names of that.
struct Asked {
  Features features;
  DistributedDataParallelOptions options;
  FuseOptions how;

  bool has(Feature feature) const { return features.has(feature); }
  bool fuses() const {
    return std::any_of(kOfFuse.begin(), kOfFuse.end(), [this](Feature each) { return has(each); });
  }
  // With a hook nothing is fused, so nothing is asked of fuse.
  Features wanted() const {
    Features all;
    for (int i = 0; i < static_cast<int>(Feature::Count); ++i) {
      const auto each = static_cast<Feature>(i);
      const bool is_of_fuse = std::find(kOfFuse.begin(), kOfFuse.end(), each) != kOfFuse.end();
      if (has(each) && !(is_of_fuse && has(Feature::Hook))) all.add(each);
    }
    return fuses() ? all.add(Feature::Fuse) : all;
  }
  // Where ranks share memory, stage 3 leaves the weights whole.
  const char* engine() const { return has(Feature::Stage3) ? "tcp" : "thread"; }
};

// Those that a program asks for by the wrapper or by fuse; the others are Trainer's and Accelerator's, or need a
// device.
void ask(Feature feature, Asked& asked) {
  asked.features.add(feature);
  switch (feature) {
    case Feature::VirtualShards:
      asked.options.virtual_shards = kTexts;
      return;
    case Feature::StaticGraph:
      asked.options.static_graph = true;
      return;
    case Feature::UnsentBuffers:
      asked.options.broadcast_buffers = false;
      return;
    case Feature::IgnoredTensors:
      asked.options.parameters_and_buffers_to_ignore = {"kept"};
      return;
    case Feature::DivergingHook:
      asked.features.add(Feature::Hook);
      return;
    case Feature::Stage2:
      asked.how.stage = 2;
      return;
    case Feature::Stage3:
      asked.how.stage = 3;
      asked.how.units = {"body"};
      return;
    case Feature::HybridShard:
      asked.how.hybrid_shard = true;
      return;
    case Feature::Gradients16:
      asked.how.gradient_dtype = torch::kBFloat16;
      return;
    case Feature::OwnWeights:
      asked.how.share_weights = false;
      return;
    default:
      return;  // the training asks
  }
}

const std::vector<Feature>& asked_features() {
  static const std::vector<Feature> all{Feature::VirtualShards,  Feature::StaticGraph,     Feature::UnsentBuffers,
                                        Feature::IgnoredTensors, Feature::SparseGradients, Feature::FollowBackward,
                                        Feature::Hook,           Feature::DivergingHook,   Feature::Join,
                                        Feature::Fuse,           Feature::Stage2,          Feature::Stage3,
                                        Feature::HybridShard,    Feature::Gradients16,     Feature::OwnWeights};
  return all;
}

// The weights of a training on this rank, and whether its optimizer was fused.
struct PairEnd {
  std::vector<at::Tensor> weights;
  std::string fuse_reason;
};

PairEnd train_pair(const Asked& asked, const Group& group) {
  const bool is_sparse = asked.has(Feature::SparseGradients);
  PairNet net(is_sparse);
  DistributedDataParallelOptions options = asked.options;
  options.process_group = group;
  DistributedDataParallel ddp(net, options);
  if (asked.has(Feature::FollowBackward)) ddp.follow_backward();
  if (asked.has(Feature::Hook)) {
    ddp.register_comm_hook(asked.has(Feature::DivergingHook) ? noop_hook() : allreduce_hook());
  }
  // Lockstep's optimizers take no sparse gradients, and fuse passes these by.
  SGD optimizer(is_sparse ? net->body->parameters() : net->parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::SGD of_table(net->table->parameters(), torch::optim::SGDOptions(0.1));
  PairEnd end;
  if (asked.fuses() && ddp.fuse(optimizer, asked.how).mode() == FuseMode::Off)
    end.fuse_reason = ddp.fused_step().reason();
  const std::int64_t share = kTexts / group->world_size();
  const auto step_of = [&](int step) {
    optimizer.zero_grad();
    if (is_sparse) of_table.zero_grad();
    if (asked.has(Feature::VirtualShards)) {
      ddp.run_shards(static_cast<std::uint64_t>(step),
                     [&](std::int64_t shard) { pair_loss(ddp(text_of_step(step, shard).unsqueeze(0))).backward(); });
    } else {
      std::vector<at::Tensor> texts;
      for (std::int64_t i = 0; i < share; ++i) texts.push_back(text_of_step(step, group->rank() * share + i));
      pair_loss(ddp(torch::stack(texts))).backward();
    }
    optimizer.step();
    if (is_sparse) of_table.step();
  };
  const auto loop = [&] {
    for (int step = 0; step < kPairSteps; ++step) step_of(step);
  };
  if (asked.has(Feature::Join)) {
    ddp.join(loop);
  } else {
    loop();
  }
  if (asked.fuses()) ddp.fused_step().unfuse();
  for (const at::Tensor& parameter : net->parameters()) end.weights.push_back(parameter.detach().clone());
  return end;
}

std::vector<at::Tensor> train_whole() {
  PairNet net(false);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < kPairSteps; ++step) {
    optimizer.zero_grad();
    std::vector<at::Tensor> texts;
    for (std::int64_t text = 0; text < kTexts; ++text) texts.push_back(text_of_step(step, text));
    pair_loss(net(torch::stack(texts))).backward();
    optimizer.step();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

void expect_pair(const Asked& asked, const std::vector<at::Tensor>& whole, const Group& group) {
  const Features wanted = asked.wanted();
  if (const auto refused = wanted.refusal()) {
    const std::string text = fuse_error([&] { train_pair(asked, group); });
    const std::string why = refused->what.substr(refused->what.find(": ") + 2);
    EXPECT_NE(text.find(why), std::string::npos) << text << "; wanted: " << refused->what;
    return;
  }
  const PairEnd end = train_pair(asked, group);
  const bool may_fuse = asked.fuses() && !wanted.reason_not_to_fuse();
  EXPECT_EQ(end.fuse_reason.empty(), may_fuse || !asked.fuses()) << end.fuse_reason;
  if (asked.has(Feature::DivergingHook)) return;
  const double tolerance = asked.has(Feature::Gradients16) ? 5e-3 : 1e-6;
  ASSERT_EQ(end.weights.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LE((end.weights[i] - whole[i]).abs().max().item<double>(), tolerance) << "parameter " << i;
  }
}

// Takes longer than a second: 120 groups of two ranks.
TEST(FeaturePairs, GiveTheWeightsOfOneProcessOrWhatTheTableSays) {
  const std::vector<at::Tensor> whole = train_whole();
  const std::vector<Feature>& all = asked_features();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = i; k < all.size(); ++k) {  // i == k: the feature alone
      SCOPED_TRACE(std::string(name_of(all[i])) + " and " + name_of(all[k]));
      Asked asked;
      ask(all[i], asked);
      ask(all[k], asked);
      try {
        fuse_ranks(asked.engine(), 2, [&](const Group& group) { expect_pair(asked, whole, group); });
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

TEST(FeaturePairs, AreOnThePageAsInTheTable) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/limits.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(table_of_exclusions()), std::string::npos) << "the page should have:\n"
                                                                       << table_of_exclusions();
}

TEST(FeaturePairs, AreNamedInTheWordsOfWhoAsks) {
  Features features;
  features.add(Feature::Join).add(Feature::VirtualShards, "--virtual-shards 4");
  const auto refused = features.refusal();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->what,
            "--virtual-shards 4 cannot be combined with join: ranks run out of inputs one after the other");
  Features survival;
  survival.add(Feature::Survival);
  EXPECT_EQ(survival.refusal()->what,
            "survival of lost ranks needs virtual shards: the update would have other samples on fewer ranks");
  EXPECT_FALSE(survival.add(Feature::VirtualShards).refusal());
}

}  // namespace
}  // namespace lockstep
