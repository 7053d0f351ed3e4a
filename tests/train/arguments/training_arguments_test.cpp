#include "lockstep/train/training_arguments.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/train/arguments/training_argument_table.h"
#include "lockstep/train/training_flags.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/arguments/usage_refusal.h"

namespace lockstep {
namespace {

TrainingArguments parsed_flags(std::vector<std::string> flags) {
  CLI::App app;
  TrainingFlags training;
  training.add(app);
  std::reverse(flags.begin(), flags.end());
  app.parse(flags);
  return training.arguments();
}

TEST(TrainingArguments, DefaultsAreHuggingFaces) {
  const nlohmann::json values = to_json(TrainingArguments());
  EXPECT_EQ(values.at("per_device_train_batch_size"), 8);
  EXPECT_EQ(values.at("num_train_epochs"), 3.0);
  EXPECT_EQ(values.at("learning_rate"), 5e-5);
  EXPECT_EQ(values.at("lr_scheduler_type"), "linear");
  EXPECT_EQ(values.at("adam_beta2"), 0.999);
  EXPECT_EQ(values.at("max_grad_norm"), 1.0);
  EXPECT_EQ(values.at("logging_steps"), 500);
  EXPECT_EQ(values.at("eval_strategy"), "no");
  EXPECT_EQ(values.at("save_strategy"), "steps");
  EXPECT_EQ(values.at("seed"), 42);
  EXPECT_TRUE(values.at("save_total_limit").is_null());
  check_training_arguments(TrainingArguments());
}

TEST(TrainingArguments, AreRefusedWithTheFileAndInWords) {
  const TemporaryFolder folder;
  const std::string path = folder / "args.json";
  const auto refusal = [&](const std::string& content) {
    std::ofstream(path) << content;
    try {
      parsed_flags({"--config", path});
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("json.exception"), std::string::npos) << error.what();
      EXPECT_LT(std::string(error.what()).size(), 1000U);
      return error.happened();
    }
    return std::string("taken");
  };
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  EXPECT_NE(refusal(nested).find("nested too deeply"), std::string::npos);
  const std::string number = refusal("{\"seed\": 1,\n \"learning_rate\": 1e999}");
  EXPECT_NE(number.find("this is not JSON: line 2"), std::string::npos) << number;
  EXPECT_NE(number.find("after the key \"learning_rate\": number overflow parsing '1e999'"), std::string::npos)
      << number;
  EXPECT_NE(refusal("{\"optim\": \"" + std::string(1 << 20, 'A') + "\"}").find("1048576 bytes"), std::string::npos);
  EXPECT_NE(refusal("{\"" + std::string(1 << 20, 'A') + "\": 1}").find("1048576 bytes"), std::string::npos);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(parsed_flags({"--config", path}), Error) << "nobody writes to this pipe";
}

TEST(TrainingArguments, AreReadFromAFileAndFlagsWin) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/args.json";
  std::ofstream(path) << R"({"learning_rate": 2e-5, "evaluation_strategy": "epoch", "save_total_limit": 3,
                            "lr_scheduler_kwargs": {"num_cycles": 2}, "num_train_epochs": 4})";
  const TrainingArguments args =
      parsed_flags({"--config", path, "--num-train-epochs", "2", "--per_device_train_batch_size=32"});
  EXPECT_EQ(args.learning_rate, 2e-5);
  EXPECT_EQ(args.eval_strategy, "epoch");
  EXPECT_EQ(args.save_total_limit, 3);
  EXPECT_EQ(args.lr_scheduler_kwargs.at("num_cycles"), 2);
  EXPECT_EQ(args.num_train_epochs, 2);
  EXPECT_EQ(args.per_device_train_batch_size, 32);
}

TEST(TrainingArguments, WhatIsWrittenReadsBackTheSame) {
  TrainingArguments args;
  args.metric_for_best_model = "f1";
  args.greater_is_better = true;
  args.data_seed = 7;
  args.report_to = {"tensorboard"};
  TrainingArguments back;
  const nlohmann::json values = to_json(args);
  for (const auto& [name, value] : values.items()) set_training_argument(back, name, value, "test");
  EXPECT_EQ(to_json(back), to_json(args));
}

TEST(TrainingArguments, SwitchesTakeAValueOrNone) {
  EXPECT_TRUE(parsed_flags({"--group-by-length"}).group_by_length);
  EXPECT_TRUE(parsed_flags({"--group-by-length", "--seed", "3"}).group_by_length);
  EXPECT_FALSE(parsed_flags({"--fuse", "false"}).fuse);
  EXPECT_FALSE(parsed_flags({"--fuse=no"}).fuse);
  EXPECT_EQ(parsed_flags({"--greater-is-better", "false"}).greater_is_better, false);
  EXPECT_EQ(parsed_flags({"--save-total-limit", "none"}).save_total_limit, std::nullopt);
  EXPECT_EQ(parsed_flags({"--resume-from-checkpoint", "out/checkpoint-5"}).resume_from_checkpoint, "out/checkpoint-5");
}

struct RefusedArgument {
  const char* name;
  std::vector<std::string> flags;
  std::vector<std::string> said;
  friend std::ostream& operator<<(std::ostream& out, const RefusedArgument& c) { return out << c.name; }
};
class RefusedArguments : public ::testing::TestWithParam<RefusedArgument> {};

TEST_P(RefusedArguments, NameTheFlagAndTheFix) {
  const std::string text = refusal_of([] { parsed_flags(GetParam().flags); });
  for (const std::string& part : GetParam().said) EXPECT_NE(text.find(part), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedArguments,
    ::testing::Values(
        RefusedArgument{
            "negative_batch", {"--per-device-train-batch-size=-1"}, {"per_device_train_batch_size", "at least 1"}},
        RefusedArgument{
            "no_number", {"--learning-rate", "fast"}, {"learning_rate", "\"fast\" is not a number", "give a number"}},
        RefusedArgument{"half_a_batch", {"--per-device-eval-batch-size", "1.5"}, {"1.5 is not a whole number"}},
        RefusedArgument{
            "near_schedule", {"--lr_scheduler_type", "lineer"}, {"there is no 'lineer'; did you mean 'linear'?"}},
        RefusedArgument{"near_choice", {"--eval-strategy", "epochs"}, {"did you mean 'epoch'", "no, steps, epoch"}},
        RefusedArgument{"best_without_eval", {"--load-best-model-at-end"}, {"load_best_model_at_end", "eval_strategy"}},
        RefusedArgument{"both_warmups", {"--warmup-steps", "5", "--warmup-ratio", "0.1"}, {"warmup_ratio"}},
        RefusedArgument{"part_of_a_step", {"--logging-steps", "2.5"}, {"logging_steps", "whole number"}},
        RefusedArgument{"no_updates", {"--max-steps", "0"}, {"max_steps"}},
        RefusedArgument{"no_folder", {"--output-dir", ""}, {"output_dir is empty", "name a folder"}},
        RefusedArgument{"empty_number", {"--seed", ""}, {"seed", "give a whole number"}},
        RefusedArgument{"nan", {"--learning-rate", "nan"}, {"learning_rate"}}),
    [](const auto& test) { return test.param.name; });

TEST(TrainingArguments, UnknownNamesComeWithASuggestion) {
  TrainingArguments args;
  const auto set = [&](const std::string& name) {
    return refusal_of([&] { set_training_argument(args, name, nlohmann::json(1), "args.json"); });
  };
  EXPECT_NE(set("learning_rat").find("did you mean 'learning_rate'?"), std::string::npos);
  EXPECT_NE(set("learning_rat").find("args.json"), std::string::npos);
  EXPECT_NE(set("auto_find_batch_size").find("Hugging Face"), std::string::npos);
  EXPECT_NE(set("epochs").find("did you mean 'num_train_epochs'?"), std::string::npos) << set("epochs");
  EXPECT_NE(set("batch_size").find("did you mean 'per_device_train_batch_size'?"), std::string::npos);
  EXPECT_NE(set("bananas").find("no training argument 'bananas'"), std::string::npos);
  EXPECT_NE(set("model_name_or_path").find("give --model on the command line"), std::string::npos);
}

// What transformers' to_json_string() writes asks for nothing that this Trainer has not, unless a value was set.
TEST(TrainingArguments, FilesOfHuggingFaceAreRead) {
  const std::string recorded = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/train/huggingface/training_arguments.json";
  TrainingArguments args;
  read_training_arguments(args, recorded);
  EXPECT_EQ(args.output_dir, "out");
  EXPECT_TRUE(args.use_cpu);
  EXPECT_EQ(args.learning_rate, 5e-5);

  const TemporaryFolder folder;
  const auto document = nlohmann::json::parse(std::ifstream(recorded));
  for (const auto& [name, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"deepspeed", "zero.json"}, {"neftune_noise_alpha", 5}, {"accelerator_config", {{"split_batches", true}}}}) {
    nlohmann::json changed = document;
    changed[name] = value;
    std::ofstream(folder / "changed.json") << changed.dump();
    const std::string text = refusal_of([&] { read_training_arguments(args, folder / "changed.json"); });
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

// transformers 5 has other names for two arguments, and 5.24 writes the old one of them as null.
TEST(TrainingArguments, NewNamesOfHuggingFaceWork) {
  TrainingArguments args;
  set_training_argument(args, "train_sampling_strategy", std::string("group_by_length"), "here");
  set_training_argument(args, "activation_checkpointing", std::string("true"), "here");
  EXPECT_TRUE(args.group_by_length);
  EXPECT_TRUE(args.gradient_checkpointing);
  set_training_argument(args, "train_sampling_strategy", std::string("random"), "here");
  EXPECT_FALSE(args.group_by_length);
  for (const char* other : {"sequential", "batch_rebalance"}) {
    const std::string text =
        refusal_of([&] { set_training_argument(args, "train_sampling_strategy", std::string(other), "here"); });
    EXPECT_NE(text.find("samples are not taken by '" + std::string(other)), std::string::npos) << text;
    EXPECT_NE(text.find("give random"), std::string::npos) << text;
  }
  const TemporaryFolder folder;
  std::ofstream(folder / "new.json") << R"({"activation_checkpointing": true, "gradient_checkpointing": null,
    "train_sampling_strategy": "group_by_length"})";
  TrainingArguments read;
  read_training_arguments(read, folder / "new.json");
  EXPECT_TRUE(read.gradient_checkpointing);
  EXPECT_TRUE(read.group_by_length);
}

// Every name in what transformers' to_json_string() writes: known, or refused with a reason.
TEST(TrainingArguments, EveryNameOfHuggingFaceHasAnAnswer) {
  const std::string recorded = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/train/huggingface/training_arguments.json";
  const auto document = nlohmann::json::parse(std::ifstream(recorded));
  ASSERT_GT(document.size(), 100U);
  for (const auto& item : document.items()) {
    const bool is_known = find_training_argument(item.key()) != nullptr;
    EXPECT_NE(is_known, !unsupported_training_argument(item.key()).empty()) << item.key();
  }
}

TEST(TrainingArguments, AreReadFromYaml) {
  const TemporaryFolder folder;
  const std::string path = folder / "args.yaml";
  const auto refusal = [&](const std::string& yaml) {
    std::ofstream(path) << yaml;
    TrainingArguments unused;
    return refusal_of([&] { read_training_arguments(unused, path); });
  };
  std::ofstream(path) << "# a training\nlearning_rate: 1e-3\nnum-train-epochs: 2\nsave_strategy: no\n"
                         "eval_strategy: \"epoch\"\nbf16: yes\nreport_to: [tensorboard]\noutput_dir: 12\nseed: 7\n"
                         "ddp_backend: ~\nmetric_for_best_model: null\n";
  TrainingArguments args;
  read_training_arguments(args, path);
  EXPECT_EQ(args.learning_rate, 1e-3);
  EXPECT_EQ(args.num_train_epochs, 2);
  EXPECT_EQ(args.save_strategy, "no");
  EXPECT_EQ(args.eval_strategy, "epoch");
  EXPECT_TRUE(args.bf16);
  EXPECT_EQ(args.report_to, std::vector<std::string>{"tensorboard"});
  EXPECT_EQ(args.output_dir, "12");
  EXPECT_EQ(args.seed, 7);
  EXPECT_FALSE(args.ddp_backend.has_value());

  EXPECT_NE(refusal("seed: 1\nlearning_rate: 1\nseed: 2\n").find("'seed' occurs twice: here and in line 1"),
            std::string::npos);
  EXPECT_NE(refusal("seed: 1\nseed: 2\n").find("args.yaml:2"), std::string::npos);
  EXPECT_NE(refusal("a: [1\nb: 2\n").find("this is not YAML"), std::string::npos);
  EXPECT_NE(refusal("- seed\n").find("must be a YAML mapping"), std::string::npos);
  EXPECT_NE(refusal("seed: many\n").find("seed: the value \"many\" is not a whole number"), std::string::npos);
  EXPECT_NE(refusal("bf16: \"yes\"\n").find("bf16"), std::string::npos);
  EXPECT_NE(refusal("learning_rat: 1\n").find("did you mean"), std::string::npos);
  std::string bomb = "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]\n";
  for (char name = 'b'; name < 'j'; ++name) {
    const char before = static_cast<char>(name - 1);
    bomb += std::string(1, name) + ": &" + name + " [";
    for (int copy = 0; copy < 10; ++copy) bomb += std::string("*") + before + ",";
    bomb.back() = ']';
    bomb += "\n";
  }
  EXPECT_NE(refusal(bomb).find("too large"), std::string::npos);
}

TEST(TrainingArguments, AllNamesOfAFileThatAreNoneAreListedAtOnce) {
  const TemporaryFolder folder;
  const std::string path = folder / "args.json";
  std::ofstream(path) << R"({"seed": 1, "tf32": true, "train_file": "a.csv", "learning_rat": 1, "bananas": 2})";
  const std::string text = refusal_of([&] { parsed_flags({"--config", path}); });
  for (const char* part :
       {"4 names in the file", "\n- tf32: ", "\n- train_file: it is a flag of lockstep train, --train-file",
        "\n- learning_rat: there is no argument of that name; did you mean 'learning_rate'?",
        "\n- bananas: there is no argument of that name", "args.json"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep
