// `lockstep bench tokenize` and `bench safetensors`: that they measure, check ids, and say where a peer is missing.
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
  // A token for each byte but the line ends, in which the shipped file has 4001.
  EXPECT_EQ(rows[0]["tokens"], rows[0]["bytes"].get<std::int64_t>() - 4001);
  EXPECT_EQ(rows[1]["ids_equal"], true);
  EXPECT_TRUE(rows[2]["missing"].get<std::string>().find("/no/python is not there") == 0) << rows[2];
  EXPECT_EQ(rows[3]["system"], "tiktoken");
}

// A peer that gives other ids must be noticed: this one gives none.
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

TEST(BenchSafetensors, OpensAFileThatItMade) {
  const ProgramEnd end = bench({"safetensors", "--megabytes", "8", "--rounds", "2", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  EXPECT_GT(out["bytes"], 8'000'000);
  EXPECT_GE(out["tensor_ms"], out["open_ms"]);
  EXPECT_EQ(bench({"safetensors", "/no/file.safetensors"}).code, 2);
}

}  // namespace
}  // namespace lockstep
