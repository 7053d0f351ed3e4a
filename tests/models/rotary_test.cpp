// Decoders of Llama's shape beyond their fixtures: caches, windows, gradients of gradients, files.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/models/key_value_cache.h"
#include "lockstep/models/registry.h"
#include "lockstep/models/rotary/grouped_attention.h"
#include "lockstep/models/rotary/rms_norm.h"
#include "lockstep/models/rotary/rope.h"
#include "lockstep/models/rotary_models.h"
#include "tests/models/small_models.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

using torch::Tensor;

const std::string kFixtures = LOCKSTEP_SOURCE_DIR "/tests/models/fixtures/";

class RotaryFixtures : public ::testing::TestWithParam<const char*> {
 protected:
  static std::shared_ptr<Model> load(const std::string& folder) {
    auto model = load_pretrained_model(folder, TextTask::CausalLanguageModel).model;
    model->eval();
    return model;
  }
};

double gap(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// Token by token, in pieces, and at once: the same scores, in texts longer than a window and than the cache's first
// room.
TEST_P(RotaryFixtures, ACacheGivesTheScoresOfTheWholeText) {
  const torch::NoGradGuard no_grad;
  const auto model = load(kFixtures + GetParam());
  torch::manual_seed(4);
  const Tensor ids = torch::randint(1, 40, {2, 30}, torch::kLong);
  const Tensor whole = model->forward({{"input_ids", ids}});
  KeyValueCache cache;
  auto& decoder = dynamic_cast<CachedDecoder&>(*model);
  std::int64_t read = 0;
  for (const std::int64_t piece : {5, 1, 1, 9, 1, 13}) {
    const Tensor scores = decoder.next_scores(ids.narrow(1, read, piece), cache);
    read += piece;
    EXPECT_EQ(cache.length(), read);
    EXPECT_LT(gap(scores, whole.select(1, read - 1)), 2e-5) << read;
  }
  EXPECT_THROW(decoder.next_scores(ids.narrow(1, 0, 3), cache), Error) << "the model has 32 positions";
}

TEST_P(RotaryFixtures, LeftPaddingChangesNothingIfPositionsAreThoseOfTokens) {
  const torch::NoGradGuard no_grad;
  const auto model = load(kFixtures + GetParam());
  torch::manual_seed(4);
  const Tensor ids = torch::randint(1, 40, {1, 9}, torch::kLong);
  const Tensor padded = torch::cat({torch::zeros({1, 3}, torch::kLong), ids}, 1);
  const Tensor mask = padded.ne(0).to(torch::kLong);
  const Tensor scores =
      model->forward({{"input_ids", padded}, {"attention_mask", mask}, {"position_ids", position_ids_of_mask(mask)}});
  EXPECT_LT(gap(scores.slice(1, 3), model->forward({{"input_ids", ids}})), 2e-5);
}

TEST_P(RotaryFixtures, ComesBackEqualFromOneFileAndFromShards) {
  const auto model = load(kFixtures + GetParam());
  for (const std::uint64_t bytes : {kDefaultMaxShardBytes, std::uint64_t{3000}}) {
    const TemporaryFolder folder;
    write_weight_files(folder.path(), state_of(*model), bytes);
    write_lines(folder / "config.json", config_json_of(*model));
    const auto again = load_pretrained_model(folder.path(), TextTask::CausalLanguageModel);
    EXPECT_EQ(again.report.text(), "");
    const NamedTensors a = state_of(*model), b = state_of(*again.model);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i].second, b[i].second)) << a[i].first;
  }
}

TEST_P(RotaryFixtures, RunInEveryFloatingType) {
  for (const auto type : {torch::kDouble, torch::kBFloat16}) {
    const auto model = load(kFixtures + GetParam());
    const Batch batch = model->random_batch({2, 6, 1, true});
    const Tensor exact = model->forward(batch);
    model->to(type);
    const Tensor scores = model->forward(batch);
    EXPECT_EQ(scores.scalar_type(), type);
    // In bf16 a row of small numbers is rounded much: transformers' own largest error is up to 13 % of the largest
    // score here, and its norm up to 5 % of the scores' norm.
    const double error = (scores.to(torch::kDouble) - exact.to(torch::kDouble)).norm().item<double>();
    EXPECT_LT(error, (type == torch::kDouble ? 1e-6 : 0.1) * exact.norm().item<double>());
    model->loss(scores, batch).mean().backward();
    for (const auto& p : model->named_parameters()) {
      EXPECT_TRUE(p.value().grad().isfinite().all().item<bool>()) << p.key();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RotaryFixtures,
                         ::testing::Values("llama-lm", "llama-lm-llama3", "qwen2-lm", "qwen3-lm", "mistral-lm",
                                           "smollm3-lm"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// Files of transformers 4 say "rope_theta" and "rope_scaling", and may have tables of frequencies.
TEST(Rotary, OlderFilesMeanTheSame) {
  const TemporaryFolder folder;
  const std::string fixture = kFixtures + "llama-lm-llama3";
  auto config = nlohmann::json::parse(read_file(fixture + "/config.json"));
  auto rope = config["rope_parameters"];
  config.erase("rope_parameters");
  config["rope_theta"] = rope["rope_theta"];
  rope.erase("rope_theta");
  config["rope_scaling"] = rope;
  config["torch_dtype"] = "bfloat16";
  write_lines(folder / "config.json", config.dump());
  NamedTensors tensors;
  const WeightFiles files(fixture);
  for (const std::string& name : files.names()) tensors.emplace_back(name, files.tensor(name).clone());
  tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", torch::ones({4}));
  write_weight_files(folder.path(), tensors);
  const auto older = load_pretrained_model(folder.path(), TextTask::CausalLanguageModel);
  EXPECT_EQ(older.report.text(), "");
  const auto newer = load_pretrained_model(fixture, TextTask::CausalLanguageModel);
  const Batch batch = newer.model->random_batch({2, 20, 1});
  EXPECT_TRUE(torch::equal(older.model->forward(batch), newer.model->forward(batch)));
}

// Tied, an embedding scores words; if a file has both with different values, the model keeps both.
TEST(Rotary, TiedWeightsThatDifferAreKept) {
  const TemporaryFolder folder;
  LlamaConfig config = small_rotary<Llama>();
  LlamaForCausalLM untied(config);
  untied->save_pretrained(folder.path());
  auto json = nlohmann::json::parse(read_file(folder / "config.json"));
  json["tie_word_embeddings"] = true;
  write_lines(folder / "config.json", json.dump());
  const auto loaded = LlamaForCausalLMImpl::from_pretrained(folder.path());
  EXPECT_NE(loaded.report.untied.find("lm_head.weight"), std::string::npos) << loaded.report.text();
  EXPECT_TRUE(
      torch::equal(loaded.model->named_parameters()["lm_head.weight"], untied->named_parameters()["lm_head.weight"]));
}

TEST(Rotary, NewWeightsAreDrawnAsHuggingFaces) {
  LlamaConfig config = small_rotary<Llama>();
  config.hidden_size = config.intermediate_size = 64;
  config.attention_bias = true;
  const LlamaForCausalLM model(config);
  const auto parameters = model->named_parameters();
  EXPECT_TRUE(parameters["model.norm.weight"].eq(1).all().item<bool>());
  EXPECT_TRUE(parameters["model.layers.1.post_attention_layernorm.weight"].eq(1).all().item<bool>());
  EXPECT_TRUE(parameters["model.layers.0.self_attn.o_proj.bias"].eq(0).all().item<bool>());
  EXPECT_TRUE(parameters["model.embed_tokens.weight"][0].eq(0).all().item<bool>()) << "padding";
  EXPECT_NEAR(parameters["model.layers.0.mlp.up_proj.weight"].std().item<double>(), 0.3, 0.02);
}

// A window that holds the whole text changes nothing; a smaller one does.
TEST(Rotary, WindowsMatterToLongerTextsOnly) {
  MistralConfig config = small_rotary<Mistral>();
  torch::manual_seed(2);
  MistralForCausalLM wide(config);
  config.sliding_window = 6;
  MistralForCausalLM narrow(config);
  for (auto& p : narrow->named_parameters()) p.value().set_data(wide->named_parameters()[p.key()].data());
  for (const std::int64_t length : {6, 7}) {
    const Batch batch = wide->random_batch({2, length, 5});
    const Tensor a = static_cast<Model&>(*wide).forward(batch), b = static_cast<Model&>(*narrow).forward(batch);
    EXPECT_EQ(gap(a, b) < 1e-5, length == 6);
  }
}

// The same by loops: each query sees the keys up to its own, at most `window` of them.
TEST(GroupedAttention, IsWhatLoopsCompute) {
  torch::manual_seed(5);
  const std::int64_t heads = 4, shared = 2, queries = 3, keys = 7, width = 2;
  const Tensor q = torch::randn({1, queries, heads, width}, torch::kDouble);
  const Tensor k = torch::randn({1, keys, shared, width}, torch::kDouble);
  const Tensor v = torch::randn({1, keys, shared, width}, torch::kDouble);
  for (const std::int64_t window : {2, 5, 100}) {
    GroupedAttentionOptions options;
    options.scale = 0.7;
    options.window = window;
    const Tensor got = grouped_attention(q, k, v, options).view({queries, heads, width});
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t last = keys - queries + i, first = std::max<std::int64_t>(0, last - window + 1);
      for (std::int64_t h = 0; h < heads; ++h) {
        const Tensor seen_k = k[0].slice(0, first, last + 1).select(1, h / 2);
        const Tensor seen_v = v[0].slice(0, first, last + 1).select(1, h / 2);
        const Tensor weights = torch::softmax(seen_k.matmul(q[0][i][h]) * 0.7, 0);
        EXPECT_LT(gap(got[i][h], weights.matmul(seen_v)), 1e-12);
      }
    }
  }
}

// The norm and the rotation have backwards of their own: their gradients and those of these are autograd's.
TEST(Rotary, GradientsOfGradientsAreThoseOfPlainOperators) {
  torch::manual_seed(6);
  RotarySettings settings = small_rotary<Llama>();
  const RotaryAngles rotation = rotation_of(settings, torch::arange(3).unsqueeze(0));
  RmsNorm norm(4, 1e-3);
  norm.to(torch::kDouble);
  for (auto& p : norm.parameters()) p.data().uniform_(0.5, 1.5);
  const Tensor start = torch::randn({2, 3, 1, 4}, torch::kDouble);
  const auto run = [&](bool ours) {
    const Tensor x = start.clone().requires_grad_();
    const Tensor weight = norm.parameters()[0];
    Tensor y;
    if (ours) {
      y = rotate(norm.forward(x), rotation);
    } else {
      const Tensor n = x * torch::rsqrt(x.pow(2).mean(-1, true) + 1e-3) * weight;
      const Tensor cos = torch::cat({rotation.cosines, rotation.cosines}, -1).to(torch::kDouble);
      const Tensor sin = torch::cat({rotation.sines, rotation.sines}, -1).to(torch::kDouble);
      y = n * cos + torch::cat({-n.slice(-1, 2), n.slice(-1, 0, 2)}, -1) * sin;
    }
    const Tensor first = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
    const auto second = torch::autograd::grad({first.pow(2).sum()}, {x, weight});
    return std::vector<Tensor>{y.detach(), first.detach(), second[0], second[1]};
  };
  const auto want = run(false), got = run(true);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(gap(got[i], want[i]), 1e-10) << i;
}

}  // namespace
}  // namespace lockstep
