// Tests that `lockstep bench tokenize`, `model`, `csv`, `safetensors` and `products` measure, compare the computed
// results, and report a missing peer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kDataFolder = std::string(LOCKSTEP_SOURCE_DIR) + "/data";

ProgramEnd bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "bench"});
  return run_program(arguments);
}

TEST(BenchTokenize, MeasuresTheShippedTextsAndNamesMissingPeers) {
  const ProgramEnd end = bench({"tokenize", "--tokenizer", kDataFolder + "/bytes-vocab", "--megabytes", "0.01",
                                "--rounds", "2", "--python", "/no/python", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  ASSERT_EQ(rows.size(), 8U) << "two texts; ours in two forms, and two peers";
  EXPECT_EQ(rows[0]["system"], "lockstep");
  EXPECT_GT(rows[0]["mb_per_s"], 0);
  // One token for each byte except the line ends, of which the shipped file has 4001.
  EXPECT_EQ(rows[0]["tokens"], rows[0]["bytes"].get<std::int64_t>() - 4001);
  EXPECT_EQ(rows[1]["ids_equal"], true);
  EXPECT_TRUE(rows[2]["missing"].get<std::string>().find("/no/python is not there") == 0) << rows[2];
  EXPECT_EQ(rows[3]["system"], "tiktoken");
}

// A peer that returns other ids must be noticed: this one returns none.
TEST(BenchTokenize, FailsWhereIdsDiffer) {
  const TemporaryFolder folder;
  const std::string python = folder / "python";
  std::ofstream(python) << "#!/bin/sh\n: > \"$5\"\necho '{\"version\": \"0\", \"seconds\": [1, 1]}'\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const ProgramEnd end = bench({"tokenize", "--tokenizer", kDataFolder + "/reviews-vocab", "--megabytes", "0.01",
                                "--rounds", "2", "--python", python});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.out.find("DIFFER from token 0"), std::string::npos) << end.out << end.err;
}

// A model that computes something else, or does not exist, gets no figures.
TEST(BenchModel, MeasuresOursAndRefusesAPeerWithAnotherLoss) {
  const std::vector<std::string> small{"model",   "--model", "bert-tiny", "--batch", "2",         "--seq", "8",
                                       "--steps", "2",       "--rounds",  "1",       "--threads", "1",     "--json"};
  const ProgramEnd alone = bench(small);
  ASSERT_EQ(alone.code, 0) << alone.err;
  const auto rows = nlohmann::json::parse(alone.out);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["parameters"], 4386178) << "as transformers counts BertForSequenceClassification of this size";
  EXPECT_GT(rows[0]["backward_ms"], 0);
  EXPECT_GE(rows[0]["median_ms"], rows[0]["forward_ms"]);
  const TemporaryFolder folder;
  const std::string python = folder / "python";
  std::ofstream(python) << "#!/bin/sh\necho '{\"version\": \"0\", \"loss\": 9.5, \"parameters\": 4386178, "
                           "\"forward_ms\": [1], \"backward_ms\": [1], \"peak_mib\": 1}'\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  std::vector<std::string> beside = small;
  beside.insert(beside.end(), {"--peer", "huggingface", "--python", python});
  const ProgramEnd other = bench(beside);
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("the loss of huggingface is 9.5"), std::string::npos) << other.err;
  beside.back() = "/no/python";
  const ProgramEnd none = bench(beside);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("/no/python cannot load torch and transformers"), std::string::npos) << none.err;
}

// Every turn reads the folder in a process of its own, and all of them must measure one model.
TEST(BenchModelLong, GivesEveryTurnTheSameHeadIfTheFolderHasNone) {
  const TemporaryFolder folder;
  const ProgramEnd trained = run_program(
      {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "train", "--task", "language-modeling", "--mlm", "--model",
       "bert-tiny", "--tokenizer", kDataFolder + "/reviews-vocab", "--train-file", kDataFolder + "/reviews.csv",
       "--text-column", "review", "--max-train-samples", "8", "--max-steps", "1", "--output-dir", folder / "masked"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const ProgramEnd end = bench({"model", "--model", folder / "masked", "--batch", "1", "--seq", "8", "--steps", "1",
                                "--rounds", "2", "--threads", "1", "--json"});
  EXPECT_EQ(end.code, 0) << end.err;
}

TEST(BenchCsv, CountsTheSameWithAllContenders) {
  const ProgramEnd end = bench({"csv", "--megabytes", "1", "--rounds", "1", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  EXPECT_EQ(rows.size(), 15U);
  EXPECT_EQ(rows[13]["shape"], "json lines");
  EXPECT_EQ(rows[13]["system"], "lockstep texts");
}

TEST(BenchSafetensors, OpensAFileThatItMade) {
  const ProgramEnd end = bench({"safetensors", "--megabytes", "8", "--rounds", "2", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  EXPECT_GT(out["bytes"], 8'000'000);
  EXPECT_GE(out["tensor_ms"], out["open_ms"]);
  EXPECT_EQ(bench({"safetensors", "/no/file.safetensors"}).code, 2);
}

TEST(BenchProducts, MeasuresEachProductOfALayerInBothTypes) {
  const ProgramEnd end = bench({"products", "--sizes", "32x64x96", "--rounds", "3", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto rows = nlohmann::json::parse(end.out);
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) {
    EXPECT_EQ(row["in"], 64);
    for (const std::string type : {"fp32", "bf16"}) {
      const double operations = row[type + "_ms"].get<double>() * 1e6 * row[type + "_gflops"].get<double>();
      EXPECT_NEAR(operations, 2.0 * 32 * 64 * 96, 1) << row;
      const auto& bound = row[type + "_bound_gflops"];  // null if the processor's is not known
      EXPECT_TRUE(bound.is_null() || bound.get<double>() > 0) << row;
    }
  }
  const ProgramEnd wrong = bench({"products", "--sizes", "32x64"});
  EXPECT_NE(wrong.code, 0);
  EXPECT_NE(wrong.err.find("write ROWSxINxOUT"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace lockstep
