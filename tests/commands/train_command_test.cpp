// Tests `lockstep train` and `evaluate` on one rank, and what they refuse.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/commands/run_command.h"
#include "tests/e2e/train/eval_results.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/table_training.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

TEST(TrainCommand, LearnsALanguageAndTables) {
  const TemporaryFolder folder;
  const ProgramEnd masked = run_command({"train",
                                         "--task",
                                         "language-modeling",
                                         "--mlm",
                                         "--model",
                                         "bert-tiny",
                                         "--tokenizer",
                                         kShipped + "reviews-vocab",
                                         "--train-file",
                                         kShipped + "reviews.csv",
                                         "--text-column",
                                         "review",
                                         "--max-train-samples",
                                         "200",
                                         "--validation-file",
                                         kShipped + "reviews-test.csv",
                                         "--max-eval-samples",
                                         "50",
                                         "--block-size",
                                         "64",
                                         "--max-steps",
                                         "5",
                                         "--output-dir",
                                         folder / "mlm"});
  ASSERT_EQ(masked.code, 0) << masked.err;
  EXPECT_GT(eval_result(folder / "mlm", "eval_perplexity"), 1);

  std::ofstream table(folder / "table.csv");
  table << "height,colour,label\n";
  for (int i = 0; i < 300; ++i)
    table << i % 17 << (i % 3 == 0 ? ",red," : ",blue,") << (i % 17 > 8 ? "tall" : "short") << "\n";
  table.close();
  const ProgramEnd tables =
      run_command({"train", "--task", "tabular-classification", "--model", "mlp", "--train-file", folder / "table.csv",
                   "--validation-file", folder / "table.csv", "--learning-rate", "1e-2", "--num-train-epochs", "10",
                   "--output-dir", folder / "tables"});
  ASSERT_EQ(tables.code, 0) << tables.err;
  EXPECT_GT(eval_result(folder / "tables", "eval_accuracy"), 0.9);
}

// A script that reads the output of a training gets no advice.
TEST(TrainCommand, NamesTheReportInATerminal) {
  const TemporaryFolder folder;
  std::ofstream table(folder / "table.csv");
  table << "height,label\n";
  for (int i = 0; i < 20; ++i) table << i << (i > 9 ? ",tall\n" : ",short\n");
  table.close();
  for (const bool is_in_terminal : {true, false}) {
    const std::string output = folder / (is_in_terminal ? "seen" : "piped");
    const ProgramEnd end = run_command({"train", "--task", "tabular-classification", "--model", "mlp", "--train-file",
                                        folder / "table.csv", "--max-steps", "1", "--output-dir", output},
                                       "", {}, is_in_terminal);
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_TRUE(says(end.out, "Model saved in " + output + ".\n")) << end.out;
    EXPECT_EQ(says(end.err, "lockstep report " + output + "\n"), is_in_terminal) << end.err;
    EXPECT_FALSE(says(end.out, "lockstep report")) << end.out;
    EXPECT_EQ(run_command({"report", output}).code, 0);
  }
}

// A table sorted by label: its first rows contain only one class.
TEST(TrainCommand, TakesSamplesOfTablesAtRandom) {
  const TemporaryFolder folder;
  std::ofstream table(folder / "sorted.csv");
  table << "height,label\n";
  for (int i = 0; i < 300; ++i) table << i << (i < 150 ? ",short\n" : ",tall\n");
  table.close();
  const ProgramEnd end =
      run_command({"train", "--task", "tabular-classification", "--model", "mlp", "--train-file", folder / "sorted.csv",
                   "--validation-file", folder / "sorted.csv", "--max-train-samples", "100", "--max-eval-samples",
                   "100", "--learning-rate", "1e-2", "--num-train-epochs", "10", "--output-dir", folder / "model"});
  ASSERT_EQ(end.code, 0) << end.err;
  // Trained on only one class, it would be right for half of the rows. Evaluated on only one class, it could reach 1 by
  // chance.
  EXPECT_GT(eval_result(folder / "model", "eval_accuracy"), 0.8);
  const ProgramEnd all =
      run_command({"evaluate", "--task", "tabular-classification", "--model", folder / "model", "--validation-file",
                   folder / "sorted.csv", "--output-dir", folder / "evaluated", "--save"});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_GT(eval_result(folder / "evaluated", "eval_accuracy"), 0.8);
}

TEST(TrainCommand, RefusesWithFlagFileAndFix) {
  const auto refusal = [](const CommandWords& more) {
    const ProgramEnd end = run_command(without_program(review_classification("/nonexistent", more)));
    EXPECT_TRUE(end.code == 1 || end.code == 2) << end.code << end.err;
    EXPECT_TRUE(says(end.err, "fix: ")) << end.err;
    return end.err;
  };
  EXPECT_TRUE(says(refusal({"--label-column", "divison"}), "divison"));
  EXPECT_TRUE(says(refusal({"--eval-strategy", "epochs"}), "did you mean 'epoch'"));
  EXPECT_TRUE(says(refusal({"--learning-rte", "1"}), "did you mean '--learning-rate'?"));
  EXPECT_TRUE(says(refusal({"--batch-size", "32"}), "did you mean '--per-device-train-batch-size'?"));
  EXPECT_TRUE(says(refusal({"--epochs", "1"}), "did you mean '--num-train-epochs'?"));
  EXPECT_TRUE(says(refusal({"--auto-find-batch-size"}), "Hugging Face"));
  EXPECT_TRUE(says(refusal({"--deepspeed", "zero2.json"}), "give --fsdp shard_grad_op"));
  EXPECT_TRUE(says(refusal({"--bf16", "--fp16"}), "bf16 and fp16 cannot be combined"));
  EXPECT_TRUE(says(refusal({"--per-device-train-batch-size", "0"}), "per_device_train_batch_size"));
}

TEST(TrainCommand, SavesAModelWithoutAFolderForTemporaryFiles) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const CommandWords words =
      review_classification(out, {"--max-length", "32", "--max-train-samples", "64", "--max-steps", "2"});
  const ProgramEnd end = run_command(without_program(words), "", {{"TMPDIR", folder / "not there"}});
  EXPECT_EQ(end.code, 0) << end.err;
  for (const char* file : {"model.safetensors", "vocab.txt", "tokenizer.json"}) {
    EXPECT_TRUE(std::filesystem::exists(out + "/" + file)) << file;
  }
}

// It must never silently run one rank if several were intended.
TEST(TrainCommand, RefusesAWorldWithoutARank) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      run_command(without_program(review_classification(folder / "out", {})), "", {{"WORLD_SIZE", "2"}});
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(says(end.err, "RANK")) << end.err;
}

TEST(TrainCommand, LeavesATaskThatEvaluateFinds) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "t.csv", table_text(20));
  run_well(table_training(file, folder / "out", {"--max-steps", "1", "--save-strategy", "no"}));
  const CommandWords evaluate{"evaluate", "--model", folder / "out", "--validation-file"};
  EXPECT_TRUE(says(run_well(joined_words(evaluate, {file})), "eval_accuracy"));
  const ProgramEnd none = run_command({"evaluate", "--model", folder / "none", "--validation-file", file});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "there is no folder " + (folder / "none"))) << none.err;
}

}  // namespace
}  // namespace lockstep
