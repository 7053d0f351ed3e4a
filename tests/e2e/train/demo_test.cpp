// Tests `scripts/demo` with the programs of this build: a newcomer's first impression.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/train/review_classification.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kDemo = std::string(LOCKSTEP_SOURCE_DIR) + "/scripts/demo";

ProgramEnd run_demo(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {kDemo, "--bin", LOCKSTEP_BIN_DIR});
  return run_program(flags, {{"OMP_NUM_THREADS", {}}, {"OPENBLAS_NUM_THREADS", {}}}, std::chrono::seconds(600));
}

bool demo_says(const ProgramEnd& end, const std::string& part) { return end.out.find(part) != std::string::npos; }

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  return last;
}

// From a model that is small already, for one epoch.
TEST(Demo, FineTunesAModelsFolderAndClassifiesASentence) {
  const TemporaryFolder folder;
  const std::string start = folder / "start";
  const ProgramEnd made =
      run_program(review_classification(start, {"--max-length", "8", "--max-steps", "1", "--save-strategy", "no"}));
  ASSERT_EQ(made.code, 0) << made.err;
  const ProgramEnd end = run_demo({"--model", start, "--output", folder / "demo"});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(demo_says(end, "DistributedDataParallel: 2 ranks")) << end.out;
  EXPECT_TRUE(demo_says(end, "--model " + start + " --train-file")) << end.out;
  EXPECT_FALSE(demo_says(end, "scripts/demo --model ")) << end.out;
  const std::string model = folder / "demo/reviews";
  EXPECT_NE(read_file(model + "/report.html").find("<svg"), std::string::npos);
  EXPECT_TRUE(demo_says(end, "| " LOCKSTEP_BIN_DIR "/lockstep predict --model " + model)) << end.out;
  EXPECT_NE(last_line(end.out).find("\tThe fish came crisp and hot."), std::string::npos) << end.out;
}

TEST(Demo, TrainsOnAFolderOfDigits) {
  const TemporaryFolder folder;
  const ProgramEnd made = run_program({std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "data", "digits", "--output",
                                       folder / "digits", "--train", "400", "--test", "100"});
  ASSERT_EQ(made.code, 0) << made.err;
  const ProgramEnd end = run_demo({"--data", folder / "digits", "--output", folder / "other"});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(demo_says(end, "Accuracy on the test images: ")) << end.out;
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
}

// What README shows as the demo's end, line by line; other numbers may stand there.
std::vector<std::string> lines_of_readme() {
  const std::string page = read_file(std::string(LOCKSTEP_SOURCE_DIR) + "/README.md");
  const std::string mark = "<!-- from scripts/demo -->\n```\n";
  const std::size_t begin = page.find(mark) + mark.size();
  std::istringstream block(page.substr(begin, page.find("\n```", begin) - begin));
  std::vector<std::string> lines;
  for (std::string line; std::getline(block, line);) {
    if (!line.empty() && line != "..." && line.front() != '$') lines.push_back(line);
  }
  return lines;
}

std::string letters_of(std::string text) {
  const auto is_no_letter = [](unsigned char c) { return std::isalpha(c) == 0; };
  text.erase(std::remove_if(text.begin(), text.end(), is_no_letter), text.end());
  return text;
}

// With few steps, which still takes some seconds: two trainings, one of which loses a rank in the middle.
TEST(Demo, LosesARankAndEndsWithTheWeightsOfOneRank) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_demo({"--steps", "40", "--output", folder / "demo"});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  for (const char* part : {"2 virtual shards on 1 rank", "2 virtual shards on 2 ranks", "\n$ kill -KILL ",
                           "\nThe same weights, to the last bit.\n"}) {
    EXPECT_TRUE(demo_says(end, part)) << part << "\nin\n" << end.out;
  }
  EXPECT_NE(end.err.find("killed by SIGKILL"), std::string::npos) << end.err;
  const auto loss = [&](const std::string& run) {
    return nlohmann::json::parse(read_file(folder / "demo/" + run + "/all_results.json")).at("eval_loss").get<double>();
  };
  EXPECT_EQ(loss("one-rank"), loss("reviews"));
  // The model has learned too little to say which label it gives: README's last line is left out.
  std::vector<std::string> shown = lines_of_readme();
  ASSERT_GE(shown.size(), 5U);
  shown.pop_back();
  for (const std::string& line : shown) {
    EXPECT_NE(letters_of(end.out).find(letters_of(line)), std::string::npos) << line << "\nin\n" << end.out;
  }
}

// As a newcomer starts it: the defaults' sizes make it take a minute.
TEST(DemoLong, FineTunesOnReviewsAndClassifiesASentence) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_demo({"--output", folder / "demo"});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(demo_says(end, "***** eval metrics *****")) << end.out;
  const std::string model = folder / "demo/reviews";
  const auto metrics = nlohmann::json::parse(read_file(model + "/eval_results.json"));
  EXPECT_GT(metrics.at("eval_accuracy").get<double>(), 0.7) << "the majority guess reaches 0.41";
  EXPECT_NE(read_file(model + "/report.html").find("<svg"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(model + "/model.safetensors"));
  // The printed command for the next step is the command that was run.
  EXPECT_TRUE(demo_says(end, "| " LOCKSTEP_BIN_DIR "/lockstep predict --model " + model)) << end.out;
  const std::string answer = last_line(end.out);
  EXPECT_EQ(answer.rfind("positive\t", 0), 0U) << answer;
  EXPECT_NE(answer.find("\tThe fish came crisp and hot. The bill was smaller than we had feared."), std::string::npos)
      << answer;
  // The folder of a model is where another training begins.
  EXPECT_TRUE(demo_says(end, "scripts/demo --model ")) << end.out;
  const ProgramEnd again = run_demo({"--model", model, "--output", folder / "again"});
  ASSERT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_TRUE(demo_says(again, "--model " + model + " --train-file")) << again.out;
  EXPECT_FALSE(demo_says(again, "scripts/demo --model ")) << again.out;
  const auto after = nlohmann::json::parse(read_file(folder / "again/reviews/eval_results.json"));
  EXPECT_GT(after.at("eval_accuracy").get<double>(), 0.7);
}

TEST(DemoLong, StillTrainsOnDigitsAndOnMnist) {
  const TemporaryFolder folder;
  const ProgramEnd digits = run_demo({"--digits", "--output", folder / "demo"});
  ASSERT_EQ(digits.code, 0) << digits.out << digits.err;
  EXPECT_TRUE(demo_says(digits, "Accuracy on the test images: ")) << digits.out;
  EXPECT_TRUE(demo_says(digits, "samples/s per rank")) << digits.out;
  // Accepts any folder of IDX files in MNIST's format.
  const ProgramEnd given = run_demo({"--data", folder / "demo/digits", "--output", folder / "other"});
  ASSERT_EQ(given.code, 0) << given.out << given.err;
  EXPECT_TRUE(demo_says(given, "Accuracy on the test images: ")) << given.out;
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
}

TEST(Demo, RefusesWhatItDoesNotKnow) {
  const ProgramEnd unknown = run_demo({"--digit"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("unknown argument '--digit'"), std::string::npos) << unknown.err;
  EXPECT_EQ(run_demo({"--data"}).code, 2);
  EXPECT_EQ(run_demo({"--steps", "3"}).code, 2);
  const ProgramEnd no_data = run_demo({"--data", "/nowhere"});
  EXPECT_EQ(no_data.code, 2);
  EXPECT_NE(no_data.err.find("--data: there is no folder /nowhere"), std::string::npos) << no_data.err;
  const ProgramEnd no_model = run_demo({"--model", "/nowhere"});
  EXPECT_EQ(no_model.code, 2);
  EXPECT_NE(no_model.err.find("--model: there is no /nowhere/config.json"), std::string::npos) << no_model.err;
  EXPECT_EQ(run_demo({"--digits", "--model", LOCKSTEP_SOURCE_DIR "/tests/models/fixtures/bert-classifier"}).code, 2);
  const ProgramEnd no_programs = run_program({kDemo, "--bin", "/nowhere"});
  EXPECT_EQ(no_programs.code, 2);
  EXPECT_NE(no_programs.err.find("--bin: there is no program /nowhere/lockstep;"), std::string::npos)
      << no_programs.err;
}

}  // namespace
}  // namespace lockstep
