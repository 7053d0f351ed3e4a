// What a training's log says of the training.
#include "lockstep/train/callbacks/training_about.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/train/metrics_log_callback.h"
#include "lockstep/version.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

TEST(TrainingAbout, StandsInTheLogsFirstEntry) {
  TokenTraining training(40);
  training.options.train_file = "tokens.csv";
  training.options.args.max_steps = 1;
  training.options.args.learning_rate = 0.125;
  training.options.callbacks = {std::make_shared<MetricsLogCallback>()};
  Trainer(training.options).train();
  std::ifstream log(training.folder / "metrics.jsonl");
  std::string line;
  std::getline(log, line);
  const auto about = nlohmann::json::parse(line).at("about");
  EXPECT_EQ(about.at("train_file"), "tokens.csv");
  EXPECT_EQ(about.at("train_samples"), 40);
  EXPECT_EQ(about.at("eval_samples"), 7);
  EXPECT_FALSE(about.contains("eval_file"));
  EXPECT_GT(about.at("parameters").get<int>(), 0);
  EXPECT_EQ(about.at("parameters"), about.at("trained_parameters"));
  EXPECT_FALSE(about.at("model").get<std::string>().empty());
  EXPECT_EQ(about.at("changed_arguments").at("learning_rate"), 0.125);
  EXPECT_FALSE(about.at("changed_arguments").contains("weight_decay"));
  EXPECT_NE(about.at("command").get<std::string>().find("train_test"), std::string::npos) << about;
  EXPECT_EQ(about.at("lockstep"), LOCKSTEP_VERSION);
  for (const char* name : {"host", "processor", "cores", "libtorch"}) EXPECT_TRUE(about.contains(name)) << name;
}

TEST(TrainingAbout, ACommandIsShownAsAShellTakesItWithoutSecrets) {
  EXPECT_EQ(shown_command({"lockstep", "train", "--text-column", "the text", "it's", ""}),
            "lockstep train --text-column 'the text' 'it'\\''s' ''");
  EXPECT_EQ(shown_command({"a", "--hub-token", "hf_x", "--tokenizer", "t", "--api_key=k", "--max-new-tokens", "3"}),
            "a --hub-token ... --tokenizer t --api_key=... --max-new-tokens 3");
  EXPECT_LT(shown_command({"a", std::string(100'000, 'b')}).size(), 10'000U);
}

}  // namespace
}  // namespace lockstep
