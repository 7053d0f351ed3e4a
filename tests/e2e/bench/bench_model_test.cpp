// Tests that `lockstep bench model` measures, compares the computed losses, and reports a missing peer.
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

}  // namespace
}  // namespace lockstep
