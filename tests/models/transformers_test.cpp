// Compares outputs, losses and every gradient with Hugging Face's implementation; see make_fixtures.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "lockstep/models/bert_heads.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {
namespace {

constexpr double kTolerance = 1e-5;

struct Case {
  const char* model;
  const char* batch;
  TextTask task;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.model << "/" << c.batch; }
};

std::string folder_of(const std::string& model) { return LOCKSTEP_SOURCE_DIR "/tests/models/fixtures/" + model; }

double largest(const torch::Tensor& values) { return values.abs().max().item<double>(); }

// Largest difference, in units of the largest expected value. The floor is for values that are zero up to rounding.
double difference(const torch::Tensor& got, const torch::Tensor& want) {
  return largest(got - want) / std::max(1e-2, largest(want));
}

// The unit of a gradient. The keys' biases do not affect softmax: their gradients are what is left of sums of terms
// that cancel out, and each LibTorch's attention rounds those terms in its own way. The terms are as large as those of
// the weights' gradients.
double unit_of(const std::string& name, const SafetensorsFile& expected) {
  const double own = largest(expected.tensor("grad." + name));
  const std::string::size_type end = name.rfind(".bias");
  const bool cancels =
      own < 1e-6 && (name.find("key.bias") != std::string::npos || name.find("k_lin.bias") != std::string::npos ||
                     name.find("attn.k.bias") != std::string::npos);
  return std::max(1e-2, cancels ? largest(expected.tensor("grad." + name.substr(0, end) + ".weight")) : own);
}

Batch batch_of(const SafetensorsFile& file) {
  Batch batch;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.name.rfind("input.", 0) == 0) batch[entry.name.substr(6)] = file.tensor(entry.name);
  }
  return batch;
}

class HuggingFace : public ::testing::TestWithParam<Case> {
 protected:
  void compare(Model& model) const {
    const SafetensorsFile expected(folder_of(GetParam().model) + "/case-" + GetParam().batch + ".safetensors");
    const Batch batch = batch_of(expected);
    const torch::Tensor output = model.forward(batch);
    EXPECT_LT(difference(output, expected.tensor("output")), kTolerance);
    const torch::Tensor loss = model.loss(output, batch).mean();
    EXPECT_LT(difference(loss, expected.tensor("loss")), kTolerance);
    loss.backward();
    std::size_t gradients = 0;
    for (const auto& parameter : model.named_parameters()) {
      const torch::Tensor want = expected.tensor("grad." + parameter.key());
      const torch::Tensor got =
          parameter.value().grad().defined() ? parameter.value().grad() : torch::zeros_like(parameter.value());
      EXPECT_LT(largest(got - want) / unit_of(parameter.key(), expected), kTolerance) << parameter.key();
      ++gradients;
    }
    std::size_t expected_gradients = 0;
    for (const SafetensorsEntry& entry : expected.entries()) expected_gradients += entry.name.rfind("grad.", 0) == 0;
    EXPECT_EQ(gradients, expected_gradients);
  }
};

TEST_P(HuggingFace, OutputLossAndEveryGradientAreEqual) {
  const Loaded<Model> loaded = load_pretrained_model(folder_of(GetParam().model), GetParam().task);
  EXPECT_FALSE(loaded.report.has_new_weights()) << loaded.report.text();
  EXPECT_EQ(loaded.report.text(), "");
  loaded.model->eval();
  compare(*loaded.model);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HuggingFace,
                         ::testing::Values(Case{"bert-classifier", "one-segment", TextTask::SequenceClassification},
                                           Case{"bert-classifier", "two-segments-padded",
                                                TextTask::SequenceClassification},
                                           Case{"bert-gelu-new", "plain", TextTask::SequenceClassification},
                                           Case{"bert-relu", "plain", TextTask::SequenceClassification},
                                           Case{"bert-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"roberta-classifier", "padded", TextTask::SequenceClassification},
                                           Case{"roberta-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"roberta-mlm-untied", "padded", TextTask::MaskedLanguageModel},
                                           Case{"distilbert-classifier", "padded", TextTask::SequenceClassification},
                                           Case{"distilbert-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"electra-classifier", "padded", TextTask::SequenceClassification},
                                           Case{"electra-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"electra-mlm-untied", "padded", TextTask::MaskedLanguageModel},
                                           Case{"mpnet-classifier", "padded", TextTask::SequenceClassification},
                                           Case{"mpnet-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"gpt2-lm", "no-padding", TextTask::CausalLanguageModel},
                                           Case{"gpt2-lm", "right-padding", TextTask::CausalLanguageModel},
                                           Case{"gpt2-lm", "left-padding", TextTask::CausalLanguageModel},
                                           Case{"gpt2-lm", "left-padding-positions", TextTask::CausalLanguageModel},
                                           Case{"gpt2-classifier", "right-padding", TextTask::SequenceClassification},
                                           Case{"llama-lm", "no-padding", TextTask::CausalLanguageModel},
                                           Case{"llama-lm", "right-padding", TextTask::CausalLanguageModel},
                                           Case{"llama-lm-llama3", "no-padding", TextTask::CausalLanguageModel},
                                           Case{"llama-lm-llama3", "right-padding", TextTask::CausalLanguageModel},
                                           Case{"qwen2-lm", "no-padding", TextTask::CausalLanguageModel},
                                           Case{"qwen2-lm", "right-padding", TextTask::CausalLanguageModel},
                                           Case{"qwen3-lm", "no-padding", TextTask::CausalLanguageModel},
                                           Case{"qwen3-lm", "right-padding", TextTask::CausalLanguageModel},
                                           Case{"mistral-lm", "no-padding", TextTask::CausalLanguageModel},
                                           Case{"mistral-lm", "right-padding", TextTask::CausalLanguageModel},
                                           Case{"smollm3-lm", "no-padding", TextTask::CausalLanguageModel},
                                           Case{"smollm3-lm", "right-padding", TextTask::CausalLanguageModel}),
                         [](const auto& test) {
                           std::string name = std::string(test.param.model) + "_" + test.param.batch;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

class Checkpointed : public ::testing::TestWithParam<Case> {};

// In training with dropout, the second pass must draw the same numbers, and must leave the generator as the first pass
// did.
TEST_P(Checkpointed, GivesTheSameOutputsGradientsAndRandomNumbers) {
  const SafetensorsFile file(folder_of(GetParam().model) + "/case-" + GetParam().batch + ".safetensors");
  const Batch batch = batch_of(file);
  const auto run = [&](bool is_checkpointed) {
    LoadOptions options;
    options.gradient_checkpointing = is_checkpointed;
    const auto model = load_pretrained_model(folder_of(GetParam().model), GetParam().task, options).model;
    model->train();
    torch::manual_seed(3);
    const torch::Tensor output = model->forward(batch);
    model->loss(output, batch).mean().backward();
    NamedTensors results{{"output", output.detach()}, {"next random number", torch::rand({1})}};
    for (const auto& p : model->named_parameters()) {
      if (p.value().grad().defined()) results.emplace_back(p.key(), p.value().grad());
    }
    return results;
  };
  const NamedTensors plain = run(false), checkpointed = run(true);
  ASSERT_EQ(plain.size(), checkpointed.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].first, checkpointed[i].first);
    // All layers share MPNet's bias of distances: with checkpoints its gradients are added up in another order.
    if (plain[i].first == "mpnet.encoder.relative_attention_bias.weight") {
      EXPECT_LT(difference(checkpointed[i].second, plain[i].second), 1e-6);
      continue;
    }
    EXPECT_TRUE(torch::equal(plain[i].second, checkpointed[i].second)) << plain[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Checkpointed,
                         ::testing::Values(Case{"bert-classifier", "two-segments-padded",
                                                TextTask::SequenceClassification},
                                           Case{"roberta-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"distilbert-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"electra-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"mpnet-mlm", "padded", TextTask::MaskedLanguageModel},
                                           Case{"gpt2-lm", "left-padding", TextTask::CausalLanguageModel},
                                           Case{"qwen3-lm", "right-padding", TextTask::CausalLanguageModel},
                                           Case{"smollm3-lm", "right-padding", TextTask::CausalLanguageModel}),
                         [](const auto& test) { return std::string(test.param.model, 4); });

}  // namespace
}  // namespace lockstep
