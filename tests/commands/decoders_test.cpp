// Decoders of Llama's shape in the commands: trained on texts in blocks, evaluated, continued with a cache.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/models/registry.h"
#include "lockstep/models/rotary_models.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

using nlohmann::json;

class DecodersInCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    const Tokenizer tokenizer = load_tokenizer(kShipped + "bytes-vocab");
    Qwen2Config config;
    config.vocab_size = tokenizer.vocab_size();
    config.hidden_size = config.intermediate_size = 16;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 4;
    config.num_key_value_heads = 2;
    config.max_position_embeddings = 64;
    config.initializer_range = 0.3;
    torch::manual_seed(1);
    Qwen2ForCausalLM(config)->save_pretrained(model_);
    tokenizer.save(model_);
  }
  TemporaryFolder folder_;
  const std::string model_ = folder_ / "model";
};

TEST_F(DecodersInCommands, AreTrainedEvaluatedAndSavedAsWhatTheyAre) {
  const std::string text = write_lines(folder_ / "text.txt", std::string(300, 'a') + "\n" + std::string(300, 'b'));
  const std::string out = folder_ / "out";
  run_well({"train",
            "--task",
            "language-modeling",
            "--model",
            model_,
            "--train-file",
            text,
            "--validation-file",
            text,
            "--output-dir",
            out,
            "--num-train-epochs",
            "3",
            "--learning-rate",
            "0.01",
            "--block-size",
            "16",
            "--per-device-train-batch-size",
            "4",
            "--save-strategy",
            "no"});
  const json results = json::parse(read_file(out + "/all_results.json"));
  EXPECT_LT(results.at("eval_loss").get<double>(), 2.0) << "two letters, each of which follows itself";
  const json config = json::parse(read_file(out + "/config.json"));
  EXPECT_EQ(config.at("architectures"), json({"Qwen2ForCausalLM"}));
  EXPECT_EQ(load_pretrained_model(out, TextTask::CausalLanguageModel).report.text(), "");
  // The task is found in the folder.
  run_well({"evaluate", "--model", out, "--validation-file", text, "--block-size", "16"});
  const ProgramEnd said = run_command({"predict", "--model", out, "--json", "--max-new-tokens", "5"}, "aaaa\n");
  EXPECT_EQ(json::parse(said.out).at("generated_text"), "aaaaaaaaa") << said.err;
}

// Greedy, step by step without a cache, also beyond the length that the model reads.
TEST_F(DecodersInCommands, ContinueTextsAsWithoutACache) {
  const Tokenizer tokenizer = load_tokenizer(model_);
  const auto model = load_pretrained_model(model_, TextTask::CausalLanguageModel).model;
  model->eval();
  const torch::NoGradGuard no_grad;
  std::vector<TokenId> ids;
  tokenizer.append_ids("The boat", ids);
  for (int i = 0; i < 30; ++i) {
    const std::size_t seen = std::min<std::size_t>(ids.size(), 20);
    const std::vector<std::int64_t> window(ids.end() - static_cast<std::ptrdiff_t>(seen), ids.end());
    const at::Tensor scores = model->forward({{"input_ids", torch::tensor(window).unsqueeze(0)}});
    ids.push_back(static_cast<TokenId>(scores[0][-1].argmax().item<std::int64_t>()));
  }
  write_lines(folder_ / "model/generation_config.json", R"({"eos_token_id": []})");
  const ProgramEnd said = run_command(
      {"predict", "--model", model_, "--json", "--max-new-tokens", "30", "--max-length", "20"}, "The boat\n");
  EXPECT_EQ(json::parse(said.out).at("generated_text"), tokenizer.decode(ids)) << said.err;
}

TEST_F(DecodersInCommands, RefuseWhatTheyDoNot) {
  const std::string text = write_lines(folder_ / "text.csv", "text,label\na,b\nb,c");
  const ProgramEnd end = run_command({"train", "--task", "text-classification", "--model", model_, "--train-file", text,
                                      "--output-dir", folder_ / "out"});
  EXPECT_NE(end.code, 0);
  EXPECT_TRUE(says(end.err, "does not classify texts")) << end.err;
}

}  // namespace
}  // namespace lockstep
