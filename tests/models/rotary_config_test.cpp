// Settings of decoders of Llama's shape: each is applied, or refused by name.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/detail/models/rotary_config.h"
#include "lockstep/models/registry.h"
#include "lockstep/models/rotary/rope.h"
#include "lockstep/models/rotary/rotary_layout.h"
#include "tests/models/small_models.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

using nlohmann::json;

json fixture_config(const std::string& name) {
  return json::parse(read_file(LOCKSTEP_SOURCE_DIR "/tests/models/fixtures/" + name + "/config.json"));
}

template <typename Config>
Config config_of(const json& text) {
  const TemporaryFolder folder;
  write_lines(folder / "config.json", text.dump());
  return Config::from_file(folder.path());
}

struct BadRotary {
  const char* name;
  const char* type;
  const char* json;
  const char* field;  // named in `where`
  const char* says;
};

class BadRotaryConfigs : public ::testing::TestWithParam<BadRotary> {};

TEST_P(BadRotaryConfigs, NameFileAndField) {
  const TemporaryFolder folder;
  json text = {{"model_type", GetParam().type}};
  text.update(json::parse(GetParam().json));
  write_lines(folder / "config.json", text.dump());
  try {
    load_pretrained_model(folder.path(), TextTask::CausalLanguageModel);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.where().find(folder / "config.json"), std::string::npos) << error.what();
    EXPECT_NE(error.where().find(GetParam().field), std::string::npos) << error.what();
    EXPECT_NE(error.happened().find(GetParam().says), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadRotaryConfigs,
    ::testing::Values(
        BadRotary{"dynamic", "llama", R"({"rope_scaling":{"type":"dynamic","factor":2}})", "rope_scaling",
                  "\"dynamic\""},
        BadRotary{"longrope", "llama", R"({"rope_parameters":{"rope_type":"longrope"}})", "rope_parameters",
                  "\"longrope\""},
        BadRotary{"llama3_without_factors", "llama", R"({"rope_parameters":{"rope_type":"llama3","factor":8}})",
                  "rope_parameters", "no \"low_freq_factor\""},
        BadRotary{"factor_a_text", "llama", R"({"rope_parameters":{"rope_type":"linear","factor":"2"}})",
                  "rope_parameters", "has the factor \"2\""},
        BadRotary{"part_of_a_head", "llama", R"({"rope_parameters":{"partial_rotary_factor":0.5}})", "rope_parameters",
                  "partial_rotary_factor"},
        BadRotary{"part_of_a_head_beside", "llama", R"({"partial_rotary_factor":0.5})", "partial_rotary_factor",
                  "not supported"},
        BadRotary{"positions_by_layer", "qwen3", R"({"rope_parameters":{"full_attention":{"rope_theta":1e4}}})",
                  "rope_parameters", "\"full_attention\""},
        BadRotary{"theta", "llama", R"({"rope_theta":0})", "rope_theta", "out of range"},
        BadRotary{"heads_do_not_divide", "llama", R"({"hidden_size":30,"num_attention_heads":4})", "hidden_size",
                  "not divisible by"},
        BadRotary{"heads_do_not_share", "llama",
                  R"({"hidden_size":48,"num_attention_heads":6,"num_key_value_heads":4})", "num_attention_heads",
                  "not divisible by"},
        BadRotary{"odd_head", "qwen3", R"({"head_dim":5})", "head_dim", "pairs"},
        BadRotary{"quantised", "llama", R"({"quantization_config":{"bits":4}})", "quantization_config",
                  "not supported"},
        BadRotary{"activation", "llama", R"({"hidden_act":"mish"})", "hidden_act", "\"mish\""},
        BadRotary{"window_of_0", "mistral", R"({"sliding_window":0})", "sliding_window", "out of range"},
        BadRotary{"windows_by_layer", "mistral", R"({"num_hidden_layers":1,"layer_types":["sliding_attention"]})",
                  "layer_types", "ignores"},
        BadRotary{"chunks", "qwen2", R"({"num_hidden_layers":1,"layer_types":["chunked_attention"]})", "layer_types",
                  "chunked_attention"},
        BadRotary{"too_few_layer_types", "qwen2", R"({"num_hidden_layers":2,"layer_types":["full_attention"]})",
                  "layer_types", "entry for each layer"},
        BadRotary{"no_window", "qwen2", R"({"num_hidden_layers":1,"layer_types":["sliding_attention"]})", "layer_types",
                  "no window"},
        BadRotary{"no_rope_layers", "smollm3", R"({"num_hidden_layers":1,"no_rope_layers":[2]})", "no_rope_layers",
                  "has 2"},
        BadRotary{"too_large", "llama", R"({"vocab_size":10000000,"hidden_size":10000000,"num_attention_heads":1})",
                  "vocab_size", "GB of memory"}),
    [](const auto& test) { return test.param.name; });

// Expected values by transformers 5.24: LlamaRotaryEmbedding(config).inv_freq and attention_scaling.
TEST(Rope, FrequenciesAreHuggingFaces) {
  struct Case {
    const char* rope;
    std::int64_t positions;
    std::vector<double> want;
    double factor;
  };
  const Case cases[] = {
      {R"({"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,
           "high_freq_factor":4.0,"original_max_position_embeddings":8192}})",
       131072,
       {1, 0.193922758, 0.0376060307, 0.00729266508, 0.000429556705, 8.57025589e-06, 1.66196742e-06, 3.22293289e-07},
       1},
      {R"({"rope_parameters":{"rope_type":"yarn","rope_theta":1000000.0,"factor":4.0,
           "original_max_position_embeddings":32768}})",
       131072,
       {1, 0.177827939, 0.0316227786, 0.00421755994, 0.000500000024, 4.44569851e-05, 7.90569356e-06, 1.40585337e-06},
       1.138629436111989},
      {R"({"rope_theta":10000.0,"rope_scaling":{"type":"yarn","factor":40.0,"original_max_position_embeddings":4096,
           "mscale":1.0,"mscale_all_dim":0.707,"beta_fast":16,"beta_slow":2,"truncate":false}})",
       131072,
       {1, 0.316227764, 0.100000001, 0.0316227786, 0.00579010462, 0.000123952457, 2.49999994e-05, 7.90569447e-06},
       1.0857263992561355},
      {R"({"rope_theta":5000.0,"rope_scaling":{"type":"linear","factor":2.5}})",
       4096,
       {0.400000006, 0.137939543, 0.047568284, 0.0164038669, 0.00565685425, 0.00195075944, 0.000672717113,
        0.000231985701},
       1}};
  for (const Case& c : cases) {
    json text = json::parse(c.rope);
    text.update({{"model_type", "llama"}, {"max_position_embeddings", c.positions}});
    const auto config = config_of<LlamaConfig>(text);
    const at::Tensor got = rope_frequencies(config.rope, 16, c.positions).to(torch::kDouble);
    EXPECT_TRUE(torch::allclose(got, torch::tensor(c.want, torch::kDouble), 3e-7, 0)) << c.rope << "\n" << got;
    EXPECT_NEAR(rope_attention_factor(config.rope, c.positions), c.factor, 1e-12);
    // The form is kept, so that a version of transformers that reads the file reads it again.
    const json saved = json::parse(config.to_json("LlamaForCausalLM"));
    EXPECT_EQ(saved.contains("rope_scaling"), text.contains("rope_scaling"));
    const auto again = config_of<LlamaConfig>(saved);
    EXPECT_TRUE(torch::equal(rope_frequencies(again.rope, 16, c.positions).to(torch::kDouble), got));
    EXPECT_EQ(again.to_json("LlamaForCausalLM"), config.to_json("LlamaForCausalLM"));
  }
}

TEST(RotaryConfig, IsSavedAsItWasRead) {
  const auto expect_same = [](const char* name, auto config, const char* architecture) {
    json want = fixture_config(name);
    want.erase("dtype");
    EXPECT_EQ(json::parse(config.to_json(architecture)), want) << name;
  };
  const std::string fixtures = LOCKSTEP_SOURCE_DIR "/tests/models/fixtures/";
  expect_same("llama-lm-llama3", LlamaConfig::from_file(fixtures + "llama-lm-llama3"), "LlamaForCausalLM");
  expect_same("qwen2-lm", Qwen2Config::from_file(fixtures + "qwen2-lm"), "Qwen2ForCausalLM");
  expect_same("qwen3-lm", Qwen3Config::from_file(fixtures + "qwen3-lm"), "Qwen3ForCausalLM");
  expect_same("smollm3-lm", SmolLM3Config::from_file(fixtures + "smollm3-lm"), "SmolLM3ForCausalLM");
}

// The defaults are those of transformers' classes.
TEST(RotaryConfig, HasHuggingFacesDefaults) {
  const auto llama = config_of<LlamaConfig>({{"model_type", "llama"}});
  EXPECT_EQ(llama.key_value_heads(), 32);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_EQ(llama.rope.theta, 10000);
  const auto mistral = config_of<MistralConfig>({{"model_type", "mistral"}});
  EXPECT_EQ(mistral.sliding_window, 4096);
  EXPECT_EQ(mistral.key_value_heads(), 8);
  EXPECT_FALSE(config_of<MistralConfig>({{"model_type", "mistral"}, {"sliding_window", nullptr}}).sliding_window);
  const auto qwen2 = config_of<Qwen2Config>({{"model_type", "qwen2"}, {"sliding_window", 5}});
  EXPECT_FALSE(qwen2.sliding_window);
  const auto sliding = config_of<Qwen2Config>(
      {{"model_type", "qwen2"}, {"use_sliding_window", true}, {"num_hidden_layers", 3}, {"max_window_layers", 2}});
  EXPECT_EQ(sliding.sliding_window, 4096);
  EXPECT_EQ(sliding.sliding_layers, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(config_of<Qwen3Config>({{"model_type", "qwen3"}}).head_size(), 128);
  EXPECT_EQ(config_of<Qwen3Config>({{"model_type", "qwen3"}, {"num_key_value_heads", nullptr}}).key_value_heads(), 32);
  const auto smollm =
      config_of<SmolLM3Config>({{"model_type", "smollm3"}, {"num_hidden_layers", 5}, {"vocab_size", 200000}});
  EXPECT_EQ(smollm.layers_without_rope, (std::vector<bool>{false, false, false, true, false}));
  EXPECT_EQ(smollm.rope.theta, 2e6);
  EXPECT_EQ(smollm.pad_token_id, 128004);
}

TEST(RotaryConfig, SettingsThatAProgramMakesAreChecked) {
  MistralConfig mistral = small_rotary<Mistral>();
  EXPECT_NO_THROW(mistral.check("here"));
  mistral.sliding_layers = {true};
  EXPECT_THROW(mistral.check("here"), Error);
  LlamaConfig llama = small_rotary<Llama>();
  llama.sliding_window = 4;
  EXPECT_THROW(llama.check("here"), Error);
  llama.sliding_window.reset();
  llama.layers_without_rope = {true, false};
  EXPECT_THROW(llama.check("here"), Error);
}

}  // namespace
}  // namespace lockstep
