// Tests `lockstep train`, `evaluate` and `predict` for languages, images and tables: each command reads what the
// previous one saved.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/eval_results.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::string answers_to(const std::string& input, const CommandWords& flags) {
  return run_well(joined_words({"predict", "--json"}, flags), input);
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  return objects;
}

CommandWords language_training(const std::string& model, const std::string& tokenizer, const std::string& output) {
  return {"train",
          "--task",
          "language-modeling",
          "--model",
          model,
          "--tokenizer",
          kShipped + tokenizer,
          "--train-file",
          kShipped + "reviews.csv",
          "--validation-file",
          kShipped + "reviews-test.csv",
          "--text-column",
          "review",
          "--block-size",
          "64",
          "--max-train-samples",
          "600",
          "--max-eval-samples",
          "100",
          "--learning-rate",
          "2e-3",
          "--save-strategy",
          "no",
          "--output-dir",
          output};
}

// Seconds, because it trains on two ranks until it knows something.
TEST(PredictCommand, Gpt2LearnsReviewsEvaluatesAndGoesOn) {
  const TemporaryFolder folder;
  const std::string out = folder / "gpt2";
  CommandWords words = language_training("gpt2-tiny", "bytes-vocab", out);
  words.insert(words.end(), {"--max-steps", "60"});
  const std::string lockstep = LOCKSTEP_BIN_DIR "/lockstep";
  const ProgramEnd trained = run_program(joined_words({lockstep, "run", "--nproc-per-node", "2", lockstep}, words), {},
                                         std::chrono::seconds(300));
  ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
  const double perplexity = eval_result(out, "eval_perplexity");
  EXPECT_NEAR(perplexity, std::exp(eval_result(out, "eval_loss")), 1e-3 * perplexity);
  const auto config = nlohmann::json::parse(read_file(out + "/config.json"));
  EXPECT_LT(perplexity, config.at("vocab_size").get<double>() / 4) << "a model that knows nothing has the vocabulary's";

  // One process gets the same result from the saved folder as two ranks.
  run_well({"evaluate", "--task", "language-modeling", "--model", out, "--validation-file",
            kShipped + "reviews-test.csv", "--text-column", "review", "--block-size", "64", "--max-eval-samples", "100",
            "--output-dir", folder / "evaluated", "--save"});
  EXPECT_NEAR(eval_result(folder / "evaluated", "eval_perplexity"), perplexity, 1e-3 * perplexity);

  const CommandWords flags{"--model", out, "--max-new-tokens", "8"};
  const std::string greedy = answers_to("The food\nWe took the\n", flags);
  const auto answers = json_lines(greedy);
  ASSERT_EQ(answers.size(), 2U) << greedy;
  EXPECT_EQ(answers[0].at("text"), "The food");
  EXPECT_EQ(answers[0].at("generated_text").get<std::string>().rfind("The food", 0), 0U);
  EXPECT_LE(answers[0].at("new_tokens").get<int>(), 8);
  EXPECT_EQ(answers_to("The food\nWe took the\n", flags), greedy) << "the likeliest tokens are the same each time";
  const auto drawn_with = [&](const char* seed) {
    return answers_to("The food\n", joined_words(flags, {"--temperature", "1.5", "--seed", seed}));
  };
  const std::string drawn = drawn_with("1");
  EXPECT_EQ(drawn_with("1"), drawn);
  EXPECT_NE(drawn_with("2"), drawn);
  // Longer than the model's positions: the window moves.
  EXPECT_EQ(
      json_lines(answers_to("The food\n", {"--model", out, "--max-length", "4", "--max-new-tokens", "12"})).size(), 1U);
}

TEST(PredictCommand, BertFillsMaskedWords) {
  const TemporaryFolder folder;
  const std::string out = folder / "bert";
  CommandWords words = language_training("bert-tiny", "reviews-vocab", out);
  words.insert(words.end(), {"--mlm", "--max-steps", "2"});
  run_well(words);
  const auto answers = json_lines(answers_to("The food was [MASK] and [MASK].\n", {"--model", out}));
  ASSERT_EQ(answers.size(), 1U);
  ASSERT_EQ(answers[0].at("masks").size(), 2U);
  double before = 1;
  for (const auto& word : answers[0].at("masks")[0]) {
    EXPECT_LE(word.at("score").get<double>(), before);
    before = word.at("score");
  }
  const ProgramEnd none = run_command({"predict", "--model", out}, "no mask\n");
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("[MASK]"), std::string::npos) << none.err;
}

// The same weights, evaluated by the training and by the command.
TEST(EvaluateCommand, MasksOtherWordsThanATraining) {
  const TemporaryFolder folder;
  CommandWords words = language_training("bert-tiny", "reviews-vocab", folder / "bert");
  words.insert(words.end(), {"--mlm", "--max-steps", "1"});
  run_well(words);
  const auto evaluate = [&] {
    run_well({"evaluate", "--task", "language-modeling", "--mlm", "--model", folder / "bert", "--validation-file",
              kShipped + "reviews-test.csv", "--text-column", "review", "--block-size", "64", "--max-eval-samples",
              "100", "--output-dir", folder / "evaluated", "--save"});
    return eval_result(folder / "evaluated", "eval_loss");
  };
  const double loss = evaluate();
  EXPECT_NE(loss, eval_result(folder / "bert", "eval_loss"));
  EXPECT_EQ(loss, evaluate());
}

TEST(PredictCommand, ImagesGetTheLabelsThatEvaluateCounts) {
  const TemporaryFolder folder;
  const std::string digits = folder / "digits", out = folder / "images";
  run_well({"data", "digits", "--output", digits, "--train", "600", "--test", "100"});
  run_well({"train", "--task", "image-classification", "--model", "convnet", "--train-file", digits,
            "--validation-file", digits, "--learning-rate", "1e-2", "--num-train-epochs", "2", "--save-strategy", "no",
            "--output-dir", out});
  run_well({"evaluate", "--task", "image-classification", "--model", out, "--validation-file", digits, "--output-dir",
            folder / "evaluated", "--save"});
  const double accuracy = eval_result(out, "eval_accuracy");
  EXPECT_DOUBLE_EQ(eval_result(folder / "evaluated", "eval_accuracy"), accuracy);

  const std::string from_file =
      run_well({"predict", "--model", out, "--file", digits + "/t10k-images-idx3-ubyte", "--json"});
  const std::string from_folder = run_well({"predict", "--model", out, "--file", digits, "--json"});
  EXPECT_EQ(from_file, from_folder);
  const std::string labels = read_file(digits + "/t10k-labels-idx1-ubyte").substr(8);
  int right = 0;
  for (const auto& answer : json_lines(from_file)) {
    right += answer.at("label") == std::to_string(labels.at(answer.at("sample").get<std::size_t>()));
  }
  EXPECT_DOUBLE_EQ(right / 100.0, accuracy);
}

TEST(PredictCommand, RowsGetTheNamesOfClasses) {
  const TemporaryFolder folder;
  std::ofstream table(folder / "table.csv");
  std::ofstream unknown(folder / "unknown.csv");
  table << "height,colour,label\n";
  unknown << "number,height,colour\n";
  for (int i = 0; i < 300; ++i) {
    const std::string row = std::to_string(i % 17) + (i % 3 == 0 ? ",red" : ",blue");
    table << row << (i % 17 > 8 ? ",tall" : ",short") << "\n";
    if (i < 34) unknown << i << "," << row << "\n";
  }
  table.close();
  unknown.close();
  const std::string out = folder / "tables";
  run_well({"train", "--task", "tabular-classification", "--model", "mlp", "--train-file", folder / "table.csv",
            "--learning-rate", "1e-2", "--num-train-epochs", "10", "--save-strategy", "no", "--output-dir", out});
  // Everything that it needs from the training file is in the model's folder.
  std::filesystem::rename(folder / "table.csv", folder / "moved.csv");
  run_well({"evaluate", "--task", "tabular-classification", "--model", out, "--validation-file", folder / "moved.csv",
            "--output-dir", folder / "evaluated", "--save"});
  EXPECT_GT(eval_result(folder / "evaluated", "eval_accuracy"), 0.9);
  const auto answers = json_lines(run_well({"predict", "--model", out, "--file", folder / "unknown.csv", "--json"}));
  ASSERT_EQ(answers.size(), 34U);
  int right = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) right += answers[i].at("label") == (i % 17 > 8 ? "tall" : "short");
  EXPECT_GT(right, 30);

  // The same answers in files: as JSON Lines, and as a table that `lockstep` and others read.
  const CommandWords to_file{"predict", "--model", out, "--file", folder / "unknown.csv", "--output-file"};
  for (const std::string name : {"answers.jsonl", "answers.csv"}) {
    CommandWords words = to_file;
    words.push_back(folder / name);
    EXPECT_EQ(run_well(words), "");
  }
  EXPECT_EQ(json_lines(read_file(folder / "answers.jsonl")), answers);
  std::istringstream rows(read_file(folder / "answers.csv"));
  std::string row;
  std::getline(rows, row);
  EXPECT_EQ(row, "sample,label,score,scores.short,scores.tall");
  for (const auto& answer : answers) {
    std::getline(rows, row);
    const std::string label = answer.at("label").get<std::string>();
    EXPECT_EQ(row.rfind(std::to_string(answer.at("sample").get<int>()) + "," + label + ",", 0), 0U) << row;
  }
  EXPECT_FALSE(std::getline(rows, row)) << row;
}

TEST(PredictCommand, ImagesHaveTheClassesThatTheirLabelsHave) {
  const TemporaryFolder folder;
  const std::string digits = folder / "digits", out = folder / "images";
  run_well({"data", "digits", "--output", digits, "--train", "60", "--test", "20"});
  const std::string path = digits + "/train-labels-idx1-ubyte";
  std::string labels = read_file(path);
  labels.back() = 11;  // twelve classes
  write_file_atomically(path, labels);
  const CommandWords training{"train",       "--task", "image-classification", "--train-file", digits,
                              "--max-steps", "1",      "--save-strategy",      "no",           "--output-dir",
                              out,           "--model"};
  const auto with = [&](CommandWords more) {
    CommandWords words = training;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  run_well(with({"convnet"}));
  const auto answers = json_lines(run_well({"predict", "--model", out, "--file", digits, "--json"}));
  EXPECT_EQ(answers.at(0).at("scores").size(), 12U);
  // More classes than the model has: an Error that names the file, unless the last layer may be newly initialised.
  labels.back() = 12;
  write_file_atomically(path, labels);
  const ProgramEnd refused = run_command(with({out}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("label 12 of sample 59 is outside 0 to 11"), std::string::npos) << refused.err;
  run_well(with({out, "--ignore-mismatched-sizes"}));
  EXPECT_EQ(json_lines(run_well({"predict", "--model", out, "--file", digits, "--json"})).at(0).at("scores").size(),
            13U);
}

TEST(PredictCommand, TakesTheLengthOfTheTraining) {
  const TemporaryFolder folder;
  const std::string out = folder / "model";
  const CommandWords data{"--validation-file", kShipped + "reviews-test.csv", "--max-eval-samples", "40"};
  run_well(without_program(review_classification(
      out, joined_words({"--max-train-samples", "64", "--max-length", "8", "--max-steps", "8", "--save-strategy", "no"},
                        data))));
  const auto evaluated = [&](const CommandWords& flags) {
    CommandWords words{"evaluate", "--task",       "text-classification", "--model",        out,
                       "--save",   "--output-dir", folder / "evaluated",  "--label-column", "division"};
    words.insert(words.end(), data.begin(), data.end());
    words.insert(words.end(), flags.begin(), flags.end());
    return run_well(words);
  };
  const std::string printed = evaluated({});
  EXPECT_NE(printed.find("A sample has at most 8 tokens, from model_max_length"), std::string::npos) << printed;
  EXPECT_NEAR(eval_result(folder / "evaluated", "eval_loss"), eval_result(out, "eval_loss"), 1e-6);
  const std::string asked = evaluated({"--max-length", "64"});
  EXPECT_NE(asked.find("A sample has at most 64 tokens, from --max-length"), std::string::npos) << asked;
  EXPECT_GT(std::abs(eval_result(folder / "evaluated", "eval_loss") - eval_result(out, "eval_loss")), 1e-5);

  const std::string text = "The fish came crisp and hot and the soup was cold and nobody answered the phone.\n";
  const std::string answer = answers_to(text, {"--model", out});
  EXPECT_EQ(answer, answers_to(text, {"--model", out, "--max-length", "8"}));
  EXPECT_NE(answer, answers_to(text, {"--model", out, "--max-length", "64"}));
}

// As Hugging Face, which loads such a model and lists its answers; a file that goes by names has no answer.
TEST(PredictCommand, LabelsThatShareANameAreListedAndRefusedWhereNamesAreRead) {
  const TemporaryFolder folder;
  const std::string out = folder / "model";
  run_well(without_program(review_classification(
      out, {"--max-train-samples", "64", "--max-length", "16", "--max-steps", "1", "--save-strategy", "no"})));
  auto config = nlohmann::json::parse(read_file(out + "/config.json"));
  const std::size_t labels = config.at("id2label").size();
  ASSERT_GE(labels, 2U);
  config["id2label"]["0"] = config["id2label"]["1"] = "same";
  write_file_atomically(out + "/config.json", config.dump());
  const auto answers = json_lines(answers_to("The food\n", {"--model", out}));
  ASSERT_EQ(answers.size(), 1U);
  const auto scores = answers[0].at("scores");
  ASSERT_EQ(scores.size(), labels);
  EXPECT_EQ(scores.at(0).at("label"), "same");
  EXPECT_EQ(scores.at(1).at("label"), "same");
  double sum = 0;
  for (const auto& score : scores) sum += score.at("score").get<double>();
  EXPECT_NEAR(sum, 1, 1e-5);
  const ProgramEnd refused =
      run_command({"evaluate", "--task", "text-classification", "--model", out, "--validation-file",
                   kShipped + "reviews-test.csv", "--label-column", "division", "--output-dir", folder / "e"});
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_NE(refused.err.find("labels 0 and 1 the same name, \"same\""), std::string::npos) << refused.err;
}

TEST(PredictCommand, SaysWhatAFolderWithoutConfigNeeds) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_command({"predict", "--model", folder / ""});
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("there is no config.json"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace lockstep
