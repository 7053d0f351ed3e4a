// Trainings that are resumed as they were begun, and with another file or model under the same names.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

CommandWords with_words(CommandWords words, const CommandWords& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Reviews in two columns; `first` is the first one's text.
std::string reviews(const std::string& first = "good food") {
  std::string rows = "id,review,label,title\n";
  for (int row = 0; row < 24; ++row) {
    const std::string number = std::to_string(row);
    rows +=
        number + "," + (row == 0 ? first : "review " + number) + (row % 3 == 0 ? ",no" : ",yes") + ",t" + number + "\n";
  }
  return rows;
}

std::string table() {
  std::string rows = "height,colour,label\n";
  for (int row = 0; row < 24; ++row) {
    rows += std::to_string(row * 0.1) + (row % 3 == 0 ? ",red," : ",blue,") + (row > 12 ? "tall" : "short") + "\n";
  }
  return rows;
}

std::string pairs(const char* last, bool is_scored) {
  std::string rows = std::string("anchor,positive") + last + "\n";
  for (int row = 0; row < 24; ++row) {
    rows += "text " + std::to_string(row) + ",like " + std::to_string(row) +
            (is_scored ? ",0." + std::to_string(row % 9) : "") + "\n";
  }
  return rows;
}

struct ResumedTask {
  const char* name;
  CommandWords task;  // with the model that it begins with
  std::string file;   // its name
  std::string rows;   // empty: digits
  friend std::ostream& operator<<(std::ostream& out, const ResumedTask& each) { return out << each.name; }
};

const CommandWords kSmallBert{"--model", "bert-tiny", "--tokenizer", kShipped + "reviews-vocab"};

const std::vector<ResumedTask> kResumedTasks{
    {"text", with_words({"--task", "text-classification"}, kSmallBert), "rows.csv", reviews()},
    {"regression",
     with_words({"--task", "text-classification", "--text-column", "anchor", "--label-column", "score"}, kSmallBert),
     "rows.csv", pairs(",score", true)},
    {"masks",
     with_words({"--task", "language-modeling", "--mlm", "--text-column", "review", "--block-size", "8"}, kSmallBert),
     "rows.csv", reviews()},
    {"language",
     {"--task", "language-modeling", "--model", "gpt2-tiny", "--tokenizer", kShipped + "bytes-vocab", "--block-size",
      "8"},
     "rows.txt",
     reviews()},
    {"embedding", with_words({"--task", "sentence-embedding"}, kSmallBert), "rows.csv", pairs("", false)},
    {"scores", with_words({"--task", "sentence-embedding"}, kSmallBert), "rows.csv", pairs(",score", true)},
    {"table", {"--task", "tabular-classification", "--model", "mlp"}, "rows.csv", table()},
    {"digits", {"--task", "image-classification", "--model", "convnet"}, "digits", ""},
};

class Resumed : public ::testing::TestWithParam<ResumedTask> {
 protected:
  Resumed() {
    const ResumedTask& task = GetParam();
    file_ = folder_ / task.file;
    if (task.rows.empty()) {
      run_well({"data", "digits", "--output", file_, "--train", "24", "--test", "8"});
    } else {
      write_lines(file_, task.rows);
    }
  }
  // What it prints of what is not as in the checkpoint.
  std::string complaints(const CommandWords& task, const std::string& out, int steps, const CommandWords& more) {
    const ProgramEnd end = run_command(with_words(
        with_words({"train", "--train-file", file_, "--validation-file", file_, "--output-dir", out, "--max-steps",
                    std::to_string(steps), "--save-steps", "1", "--per-device-train-batch-size", "2"},
                   task),
        more));
    EXPECT_EQ(end.code, 0) << end.out << end.err;
    std::string found;
    std::istringstream lines(end.out + end.err);
    for (std::string line; std::getline(lines, line);) {
      const bool is_of_end = line.find("max_steps is") != std::string::npos;
      if (line.find("the checkpoint") != std::string::npos && !is_of_end) found += line + "\n";
    }
    return found;
  }
  CommandWords from_folder(const std::string& model) const {
    CommandWords task = GetParam().task;
    for (std::size_t i = 0; i + 1 < task.size();) {
      const bool is_of_model = task[i] == "--model" || task[i] == "--tokenizer";
      const auto at = task.begin() + static_cast<std::ptrdiff_t>(i);
      is_of_model ? void(task.erase(at, at + 2)) : void(++i);
    }
    return with_words(task, {"--model", model});
  }

  TemporaryFolder folder_;
  std::string file_;
};

// With a model that begins from random weights, and with one of a folder, also its own: the training's end replaces the
// files in it, which the next training reads. Seconds: six trainings each.
TEST_P(Resumed, WithItsOwnModelHasNoWordOfOtherSettings) {
  const std::string first = folder_ / "first", out = folder_ / "out";
  const CommandWords resume{"--resume-from-checkpoint", "true"};
  EXPECT_EQ(complaints(GetParam().task, first, 1, {}), "");
  EXPECT_EQ(complaints(GetParam().task, first, 2, resume), "");
  EXPECT_EQ(complaints(from_folder(first), out, 1, {}), "");
  EXPECT_EQ(complaints(from_folder(first), out, 2, resume), "");
  EXPECT_EQ(complaints(from_folder(out), out, 3, resume), "");
  EXPECT_EQ(complaints(from_folder(out + "/checkpoint-3"), out, 4, resume), "");
}
INSTANTIATE_TEST_SUITE_P(Tasks, Resumed, ::testing::ValuesIn(kResumedTasks),
                         [](const auto& test) { return test.param.name; });

class ResumedReviews : public ::testing::Test {
 protected:
  ResumedReviews() { write_lines(file_, reviews()); }
  ProgramEnd train(int steps, const CommandWords& more) const {
    return run_command(with_words(
        with_words({"train", "--task", "text-classification", "--train-file", file_, "--output-dir", folder_ / "out",
                    "--max-steps", std::to_string(steps), "--save-steps", "1", "--per-device-train-batch-size", "2"},
                   kSmallBert),
        more));
  }
  TemporaryFolder folder_;
  std::string file_ = folder_ / "rows.csv";
};

// Flags that say what was found without them are no other preparation, which would excuse other samples.
TEST_F(ResumedReviews, WithFlagsThatChangeNothingStillComparesSamples) {
  ASSERT_EQ(train(1, {}).code, 0);
  const CommandWords flags{"--text-column", "review", "--label-column",           "label",
                           "--max-length",  "512",    "--resume-from-checkpoint", "true"};
  const ProgramEnd same = train(2, flags);
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_FALSE(says(same.out, "differently prepared")) << same.out;
  write_lines(file_, reviews("bad food"));
  const ProgramEnd other = train(3, flags);
  EXPECT_NE(other.code, 0) << other.out;
  EXPECT_TRUE(says(other.err, "the checkpoint was trained on other data")) << other.err;
}

TEST_F(ResumedReviews, WithAnotherColumnOrLengthSaysSo) {
  ASSERT_EQ(train(1, {}).code, 0);
  const ProgramEnd column = train(2, {"--text-column", "title", "--resume-from-checkpoint", "true"});
  EXPECT_EQ(column.code, 0) << column.err;
  EXPECT_TRUE(says(column.out, R"(text_column is ["title"], but ["review"] in the checkpoint)")) << column.out;
  const ProgramEnd length =
      train(3, {"--text-column", "title", "--max-length", "4", "--resume-from-checkpoint", "true"});
  EXPECT_EQ(length.code, 0) << length.err;
  EXPECT_TRUE(says(length.out, "max_length is 4, but 512 in the checkpoint")) << length.out;
}

TEST_F(ResumedReviews, WithAnotherActivationOrTokenizerSaysSo) {
  ASSERT_EQ(train(1, {}).code, 0);
  const std::string model = folder_ / "out";
  auto config = nlohmann::json::parse(read_file(model + "/config.json"));
  config["hidden_act"] = "relu";
  write_file_atomically(model + "/config.json", config.dump());
  const CommandWords from_model{"--model", model, "--tokenizer", model, "--resume-from-checkpoint", "true"};
  const ProgramEnd end = train(2, from_model);
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(says(end.out, R"(config.json: hidden_act is "relu" for this run, and "gelu" for the checkpoint)"))
      << end.out;
}

}  // namespace
}  // namespace lockstep
