// Tests the answers of `lockstep train` and related commands to occupied folders, checkpoints that do not fit, and
// files that are not what they seem.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/table_training.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

TEST(TrainBadInput, AShorterTrainingDoesNotReplaceTheModelOfTheLongerOne) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "table.csv", table_text(300));
  const std::string out = folder / "out";
  ASSERT_EQ(run_command(table_training(file, out, {"--max-steps", "8", "--save-steps", "4"})).code, 0);
  const std::string model = read_file(out + "/model.safetensors");
  const std::string results = read_file(out + "/train_results.json");
  for (const char* from : {"true", "4"}) {
    const std::string checkpoint = from == std::string("true") ? from : out + "/checkpoint-" + from;
    const ProgramEnd end =
        run_command(table_training(file, out, {"--max-steps", "4", "--resume-from-checkpoint", checkpoint}));
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_TRUE(says(end.out, "Training is already complete")) << end.out;
    EXPECT_TRUE(says(end.out, out + " was not changed")) << end.out;
    EXPECT_TRUE(read_file(out + "/model.safetensors") == model) << from;
    EXPECT_EQ(read_file(out + "/train_results.json"), results);
  }
  // A training that was ended between its last checkpoint and its end does get its model.
  std::filesystem::remove(out + "/model.safetensors");
  const ProgramEnd ended =
      run_command(table_training(file, out, {"--max-steps", "8", "--resume-from-checkpoint", "true"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(read_file(out + "/model.safetensors") == model);
}

TEST(TrainBadInput, AMetricThatIsNoneIsSaidBeforeTraining) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "table.csv", table_text(100));
  const ProgramEnd end = run_command(
      table_training(file, folder / "out",
                     {"--validation-file", file, "--eval-strategy", "epoch", "--metric-for-best-model", "acuracy"}));
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_TRUE(says(end.err, "did you mean 'accuracy'?")) << end.err;
  EXPECT_FALSE(says(end.out, "Running training")) << end.out;
}

TEST(TrainBadInput, ACellWithoutANumberIsNamedWithItsLineAndColumn) {
  const TemporaryFolder folder;
  std::string text = table_text(40);
  const std::string blank = write_lines(folder / "blank.csv", text + ",red,tall\n");
  const ProgramEnd end = run_command(table_training(blank, folder / "out", {}));
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(says(end.err, "the cell of the column \"height\", which holds numbers, is blank")) << end.err;
  EXPECT_TRUE(says(end.err, "blank.csv:42:")) << end.err;
  const std::string unknown = write_lines(folder / "nan.csv", text + "NaN,red,tall\n");
  EXPECT_TRUE(says(run_command(table_training(unknown, folder / "out", {})).err, "nan.csv:42:"));
  // A word among numbers may be intended, so the command mentions it.
  const std::string word = write_lines(folder / "word.csv", text + "high,red,tall\n");
  const ProgramEnd mixed = run_command(table_training(word, folder / "out", {"--max-steps", "1"}));
  EXPECT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_TRUE(says(mixed.out, "besides 40 numbers it has 1 other value, the first \"high\"")) << mixed.out;
  EXPECT_TRUE(says(mixed.out, "word.csv:42:")) << mixed.out;
}

TEST(TrainBadInput, ATableThatIsNoneSaysWhatItLacks) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& text) {
    const std::string file = write_lines(folder / "table.csv", text);
    const ProgramEnd end = run_command(table_training(file, folder / "out", {}));
    EXPECT_NE(end.code, 0) << text;
    EXPECT_TRUE(says(end.err, "table.csv")) << end.err;
    return end.err;
  };
  EXPECT_TRUE(says(refusal("height,label\n"), "a header and no rows"));
  EXPECT_TRUE(says(refusal("label\na\nb\n"), "beside the label \"label\" there is no column with values"));
  EXPECT_TRUE(says(refusal("height,height,label\n1,2,a\n"), "the column \"height\" occurs twice"));
  EXPECT_TRUE(says(refusal("height,lable\n1,a\n"), "did you mean 'lable'?"));
  EXPECT_TRUE(says(refusal(std::string("\0\1\2,label\n1,a\n", 14)), "the header is not UTF-8 text"));
  const std::string latin = refusal("height,label\n1,a\n2,\xE4\n");
  EXPECT_TRUE(says(latin, "0xe4, is not UTF-8") && says(latin, "table.csv:3:")) << latin;
}

TEST(TrainBadInput, AValueThatTheTrainingFileHadNotIsSaid) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "table.csv", table_text(60));
  ASSERT_EQ(run_command(table_training(file, folder / "out", {"--max-steps", "1"})).code, 0);
  const std::string rows = write_lines(folder / "rows.csv", "height,colour\n1,red\n2,pink\n");
  const ProgramEnd end = run_command({"predict", "--model", folder / "out", "--file", rows});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.err, "rows.csv:3:3: 1 of 2 values of the column \"colour\" were not in the training file"))
      << end.err;
  EXPECT_TRUE(says(end.err, "\"pink\"")) << end.err;
  const std::string blank = write_lines(folder / "blank.csv", "height,colour\n,red\n");
  const ProgramEnd refused = run_command({"predict", "--model", folder / "out", "--file", blank});
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_TRUE(says(refused.err, "blank.csv:2:1")) << refused.err;
}

TEST(TrainBadInput, ALengthThatLeavesNothingIsRefused) {
  const TemporaryFolder folder;
  const auto refusal = [&](const CommandWords& more) {
    CommandWords words{
        "train",        "--train-file", kShipped + "reviews.csv", "--max-steps", "1", "--max-train-samples", "8",
        "--output-dir", folder / "out"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramEnd end = run_command(words);
    EXPECT_EQ(end.code, 2) << end.out;
    return end.err;
  };
  EXPECT_TRUE(says(refusal({"--task", "text-classification", "--model", "bert-tiny", "--tokenizer",
                            kShipped + "reviews-vocab", "--label-column", "division", "--max-length", "2"}),
                   "--max-length 2 leaves no token for a text beside the 2 special ones"));
  EXPECT_TRUE(says(refusal({"--task", "language-modeling", "--model", "gpt2-tiny", "--tokenizer",
                            kShipped + "bytes-vocab", "--text-column", "review", "--block-size", "1"}),
                   "a block needs a token to predict another from"));
}

TEST(TrainBadInput, AFractionIsNoClassAndAKeyComesOnce) {
  const TemporaryFolder folder;
  const std::string rows =
      write_lines(folder / "rows.jsonl", "{\"text\": \"good\", \"label\": 1}\n{\"text\": \"so\", \"label\": 0.5}\n");
  const auto train = [&](const std::string& file, const CommandWords& more) {
    return run_command(without_program(text_classification(file, folder / "out", more)));
  };
  const ProgramEnd fraction = train(rows, {"--problem-type", "single_label_classification"});
  EXPECT_EQ(fraction.code, 1);
  EXPECT_TRUE(says(fraction.err, "the label \"label\" is 0.5, not a class")) << fraction.err;
  EXPECT_TRUE(says(fraction.err, "rows.jsonl:2")) << fraction.err;
  const std::string mixed = write_lines(folder / "mixed.jsonl",
                                        "{\"text\": \"good\", \"label\": \"a\"}\n{\"text\": \"so\", \"label\": 0.5}\n");
  const ProgramEnd neither = train(mixed, {});
  EXPECT_EQ(neither.code, 2);
  EXPECT_TRUE(says(neither.err, "the label \"0.5\" is a number with a fraction")) << neither.err;
  EXPECT_TRUE(says(neither.err, "mixed.jsonl")) << neither.err;
  const std::string config =
      write_lines(folder / "args.json", "{\"learning_rate\": 1e-3,\n \"seed\": 1,\n \"learning_rate\": 1e-4}");
  const ProgramEnd twice = train(rows, {"--config", config});
  EXPECT_EQ(twice.code, 2);
  EXPECT_TRUE(says(twice.err, "the key \"learning_rate\" occurs twice")) << twice.err;
  EXPECT_TRUE(says(twice.err, "args.json:3")) << twice.err;
  const std::string launch = write_lines(
      folder / "launch.yaml", "distributed_type: MULTI_CPU\nnum_processes: 2\nuse_cpu: true\nnum_processes: 4\n");
  const ProgramEnd yaml = run_command({"launch", "--config-file", launch, "true"});
  EXPECT_NE(yaml.code, 0);
  EXPECT_TRUE(says(yaml.err, "the key 'num_processes' occurs twice: here and in line 2")) << yaml.err;
  EXPECT_TRUE(says(yaml.err, "launch.yaml:4")) << yaml.err;
  const std::string circle = write_lines(folder / "circle.yaml", "distributed_type: MULTI_CPU\ncommands: &a [*a]\n");
  EXPECT_EQ(run_command({"launch", "--config-file", circle, "true"}).code, 1) << "an alias of itself";
}

TEST(TrainBadInput, LaunchNamesItsOwnFlags) {
  const auto refusal = [](const CommandWords& flags) {
    CommandWords words{"launch"};
    words.insert(words.end(), flags.begin(), flags.end());
    const ProgramEnd end = run_command(words);
    EXPECT_EQ(end.code, 2) << end.err;
    return end.err;
  };
  EXPECT_TRUE(says(refusal({}), "lockstep launch --num-processes 2 ./train"));
  EXPECT_TRUE(says(refusal({"--main-process-port", "99999", "true"}), "--main-process-port is '99999'"));
  EXPECT_TRUE(says(refusal({"--machine-rank", "5", "true"}), "--machine-rank is '5'"));
}

}  // namespace
}  // namespace lockstep
