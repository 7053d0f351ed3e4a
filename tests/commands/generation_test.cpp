// How a GPT-2 continues texts by its generation_config.json, as Hugging Face's generate does.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/models/gpt2.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

class GenerationSettingsOfAFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const Tokenizer tokenizer = load_tokenizer(kShipped + "bytes-vocab");
    GPT2Config config;
    config.vocab_size = tokenizer.vocab_size();
    config.n_positions = 64;
    config.n_embd = 16;
    config.n_layer = 1;
    config.n_head = 2;
    GPT2LMHeadModel(config)->save_pretrained(folder_.path());
    tokenizer.save(folder_.path());
  }
  ProgramEnd predict(const std::string& settings, const CommandWords& more = {}) {
    write_lines(folder_ / "generation_config.json", settings);
    CommandWords words{"predict", "--model", folder_.path(), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words, "The boat\n");
  }
  static std::int64_t new_tokens(const ProgramEnd& end) {
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out).at("new_tokens");
  }
  TemporaryFolder folder_;
};

TEST_F(GenerationSettingsOfAFolder, AreTakenIfNoFlagSaysMore) {
  EXPECT_EQ(new_tokens(predict("{}")), 20);
  EXPECT_EQ(new_tokens(predict(R"({"max_new_tokens": 3})")), 3);
  EXPECT_EQ(new_tokens(predict(R"({"max_new_tokens": 3})", {"--max-new-tokens", "5"})), 5);
  nlohmann::json all = nlohmann::json::array();
  for (int id = 0; id < 1000; ++id) all.push_back(id);
  EXPECT_EQ(new_tokens(predict(nlohmann::json{{"eos_token_id", all}}.dump())), 0);
  const std::string greedy = predict("{}").out;
  EXPECT_NE(predict(R"({"do_sample": true, "temperature": 5.0, "top_k": 0})").out, greedy);
  EXPECT_EQ(predict(R"({"do_sample": true, "temperature": 5.0})", {"--temperature", "0"}).out, greedy);
}

TEST_F(GenerationSettingsOfAFolder, ThatAreNotAppliedAreNamed) {
  const ProgramEnd end = predict(R"({"repetition_penalty": 1.2, "num_beams": 4, "top_p": 0.9, "min_length": 0})");
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.err, "num_beams 4, repetition_penalty 1.2")) << end.err;
  EXPECT_FALSE(says(end.err, "top_p")) << "the likeliest token is taken: " << end.err;
  EXPECT_TRUE(says(predict(R"({"do_sample": true, "top_p": 0.9})").err, "top_p 0.9"));
  EXPECT_FALSE(says(predict(R"({"eos_token_id": 0, "transformers_version": "5.0"})").err, "not applied"));
}

TEST_F(GenerationSettingsOfAFolder, AreSavedAgainByATraining) {
  write_lines(folder_ / "generation_config.json", R"({"eos_token_id": 7})");
  run_well({"train", "--task", "language-modeling", "--model", folder_.path(), "--train-file",
            write_lines(folder_ / "train.txt", std::string(100, 'a')), "--output-dir", folder_ / "out", "--max-steps",
            "1", "--save-strategy", "no", "--block-size", "8"});
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "out/generation_config.json")).at("eos_token_id"), 7);
}

}  // namespace
}  // namespace lockstep
