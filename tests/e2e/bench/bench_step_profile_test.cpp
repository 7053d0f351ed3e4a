// Tests that `lockstep bench step --profile` finds every matrix product of a step.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// A BERT of 2 layers with 2 labels; 2 texts of 16 tokens. By hand: forward's products of both layers, where the last
// one has the rows of the first tokens alone behind its keys and values; then the pooler and the classifier. Backward
// has twice as many operations: the gradients of inputs and of weights, or of both factors.
double gflop_of_bert(double width, double inner) {
  const double texts = 2, length = 16, rows = texts * length, labels = 2;
  const double dense = 2 * width * width, wide = 2 * width * inner, pair = 2 * width;
  const double first_layer = rows * (4 * dense + 2 * wide) + 2 * rows * length * pair;
  const double last_layer = 2 * rows * dense + texts * (2 * dense + 2 * wide) + 2 * texts * length * pair;
  return 3 * (first_layer + last_layer + texts * dense + texts * 2 * width * labels) / 1e9;
}

ProgramEnd profile_bert_tiny(std::vector<std::string> more) {
  std::vector<std::string> command = {std::string(LOCKSTEP_BIN_DIR) + "/lockstep",
                                      "bench",
                                      "step",
                                      "--model",
                                      "bert-tiny",
                                      "--batch",
                                      "2",
                                      "--seq",
                                      "16",
                                      "--ranks",
                                      "2",
                                      "--steps",
                                      "2",
                                      "--rounds",
                                      "1",
                                      "--profile"};
  command.insert(command.end(), more.begin(), more.end());
  return run_program(command, {}, std::chrono::seconds(300));
}

TEST(BenchStepProfile, CountsTheOperationsOfAllProducts) {
  const ProgramEnd end = profile_bert_tiny({"--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto profile = nlohmann::json::parse(end.out).at(0).at("profile");
  EXPECT_NEAR(profile["gflop"].get<double>(), gflop_of_bert(128, 512), 1e-9) << profile.dump(1);
  double products_ms = 0, others_ms = 0;
  for (const auto& row : profile["products"]) {
    EXPECT_GT(row["ms"].get<double>(), 0) << row;
    EXPECT_GT(row["alone_ms"].get<double>(), 0) << row;
    products_ms += row["ms"].get<double>();
  }
  for (const auto& row : profile["others"]) others_ms += row["ms"].get<double>();
  const double step_ms = profile["step_ms"];
  EXPECT_NEAR(products_ms, profile["products_ms"].get<double>(), 1e-6);
  EXPECT_NEAR(products_ms + others_ms, step_ms, 1e-6) << "no time is counted twice or left out";
  EXPECT_EQ(profile["others"].back()["name"], "outside of operators");
  EXPECT_GE(profile["others"].back()["ms"].get<double>(), 0);
}

TEST(BenchStepProfileLong, PrintsTheBoundBelowTheTable) {
  const ProgramEnd end = profile_bert_tiny({"--dtype", "bf16"});
  ASSERT_EQ(end.code, 0) << end.err;
  for (const char* part : {"profile of lockstep, rank 0 of 2", "bound: the same products alone", "all else"}) {
    EXPECT_NE(end.out.find(part), std::string::npos) << part << " in\n" << end.out;
  }
}

// Writes the configuration of a small BERT, and no weights.
void write_bert_config(const TemporaryFolder& folder) {
  std::ofstream(folder / "config.json")
      << R"({"model_type": "bert", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2,)"
      << R"( "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16, "type_vocab_size": 2})";
}

TEST(BenchStep, TakesTheConfigurationOfAFolder) {
  const TemporaryFolder folder;
  write_bert_config(folder);
  const ProgramEnd end =
      run_program({std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "bench", "step", "--model", folder.path(), "--batch",
                   "2", "--seq", "16", "--ranks", "1", "--steps", "1", "--rounds", "1", "--profile", "--json"},
                  {}, std::chrono::seconds(300));
  ASSERT_EQ(end.code, 0) << end.err;
  const auto row = nlohmann::json::parse(end.out).at(0);
  EXPECT_EQ(row["model"], folder.path());
  EXPECT_NEAR(row["profile"]["gflop"].get<double>(), gflop_of_bert(16, 32), 1e-9);
}

TEST(BenchStep, RefusesPeersForAFolder) {
  const TemporaryFolder folder;
  write_bert_config(folder);
  const ProgramEnd end = run_program(
      {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "bench", "step", "--model", folder.path(), "--peer", "pytorch"}, {},
      std::chrono::seconds(300));
  EXPECT_NE(end.code, 0);
  EXPECT_NE(end.err.find("peers do not read the folder"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace lockstep
