// Tests `lockstep inspect` on JSON documents, Parquet files and checkpoints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd inspect_document(const std::string& path, bool json = false) {
  CommandWords command{"inspect", path};
  if (json) command.emplace_back("--json");
  return run_command(command);
}

void put_document(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST(InspectDocuments, CountsQuestionsAndContextsOfSquad) {
  const TemporaryFolder folder;
  put_document(folder / "dev.json", R"({"version": "1.1", "data": [{"title": "T", "paragraphs": [
    {"context": "one context", "qas": [{"id": "a", "question": "who?"}, {"id": "b", "question": "what?"}]},
    {"context": "another", "qas": [{"id": "c", "question": ""}]}]}]})");
  const auto found = nlohmann::json::parse(inspect_document(folder / "dev.json", true).out);
  EXPECT_EQ(found["kind"], "squad");
  EXPECT_EQ(found["rows"], 3);
  EXPECT_EQ(found["contexts"], 2);
  ASSERT_EQ(found["columns"].size(), 4U);
  EXPECT_EQ(found["columns"][1]["values"], nlohmann::json({{"T", 3}}));
  EXPECT_EQ(found["columns"][3]["empty"], 1);
  EXPECT_EQ(found["columns"][3]["longest_bytes"], 5);
  EXPECT_NE(inspect_document(folder / "dev.json").out.find("squad, 3 rows"), std::string::npos);
}

TEST(InspectDocuments, ShowsTheKeysOfOtherJson) {
  const TemporaryFolder folder;
  put_document(folder / "settings.json", R"({"b": 1, "a": [2, 3]})");
  const ProgramEnd end = inspect_document(folder / "settings.json");
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("JSON, object with 2 entries"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("keys: a, b"), std::string::npos) << end.out;
}

TEST(InspectDocuments, ShowsTheColumnsOfFilesOfColumns) {
  const std::string files = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/tables/files/";
  for (const auto& [name, kind] :
       {std::pair("classes.parquet", "parquet"), std::pair("stream.arrow", "arrow"), std::pair("saved", "dataset")}) {
    const auto found = nlohmann::json::parse(inspect_document(files + name, true).out);
    EXPECT_EQ(found["kind"], kind);
    EXPECT_EQ(found["rows"], 60);
    EXPECT_EQ(found["columns"][0], nlohmann::json({{"name", "text"}, {"type", "string"}}));
    EXPECT_GT(found["bytes"], 1000);
    const ProgramEnd end = inspect_document(files + name);
    EXPECT_NE(end.out.find(std::string(kind) + ", 60 rows"), std::string::npos) << end.out << end.err;
  }
}

TEST(InspectDocuments, SaysWhereADocumentIsWrong) {
  const TemporaryFolder folder;
  put_document(folder / "a.json", "{\n\"data\": [}");
  put_document(folder / "b.json", R"({"data": [{"paragraphs": [{"context": "c"}]}]})");
  put_document(folder / "c.json", R"({"data": 1})");
  put_document(folder / "d.parquet", "PAR1");
  for (const auto& [name, says] : {std::pair("a.json", "a.json:2"), std::pair("b.json", "\"qas\" is missing"),
                                   std::pair("c.json", "$.data"), std::pair("d.parquet", "d.parquet")}) {
    const ProgramEnd end = inspect_document(folder / name);
    EXPECT_EQ(end.code, 1) << name;
    EXPECT_NE(end.err.find(says), std::string::npos) << end.err;
  }
}

// Writes a checkpoint by hand, as docs/reference/checkpoints.md describes it, with the sums of coreutils' sha256sum.
void put_checkpoint(const std::string& folder, int step) {
  const auto sum_of = [](const std::string& path) { return run_program({"sha256sum", path}).out.substr(0, 64); };
  std::filesystem::create_directories(folder);
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  put_document(folder + "/model.safetensors",
               std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + std::string(8, '\0'));
  put_document(folder + "/trainer_state.json",
               R"({"epoch": 1.5, "global_step": 3, "max_steps": 9, "log_history": [{"step": 2, "loss": 0.25}]})");
  nlohmann::json manifest{{"format", "lockstep checkpoint"}, {"version", 1}, {"step", step}, {"world_size", 2}};
  manifest["sequence"] = step;
  for (const char* name : {"model.safetensors", "trainer_state.json"}) {
    const std::string path = folder + "/" + name;
    manifest["files"][name] = {{"bytes", std::filesystem::file_size(path)}, {"sha256", sum_of(path)}};
  }
  put_document(folder + "/manifest.json", manifest.dump());
  manifest["sha256"] = sum_of(folder + "/manifest.json");
  put_document(folder + "/manifest.json", manifest.dump(2) + "\n");
}

TEST(InspectDocuments, ShowsACheckpointAndVerifiesIt) {
  const TemporaryFolder folder;
  put_checkpoint(folder / "out/checkpoint-3", 3);
  put_checkpoint(folder / "out/checkpoint-12", 12);
  const auto found = nlohmann::json::parse(inspect_document(folder / "out/checkpoint-3", true).out);
  EXPECT_EQ(found["kind"], "checkpoint");
  EXPECT_EQ(found["step"], 3);
  EXPECT_EQ(found["max_steps"], 9);
  EXPECT_EQ(found["world_size"], 2);
  EXPECT_EQ(found["last_log"]["loss"], 0.25);
  EXPECT_EQ(found["weights"]["tensors"][0]["name"], "w");
  const auto all = nlohmann::json::parse(inspect_document(folder / "out", true).out);
  ASSERT_EQ(all["checkpoints"].size(), 2U);
  EXPECT_EQ(all["checkpoints"][1]["step"], 12);

  std::filesystem::resize_file(folder / "out/checkpoint-12/model.safetensors", 20);
  const ProgramEnd damaged = inspect_document(folder / "out/checkpoint-12");
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.err.find("model.safetensors has 20 bytes"), std::string::npos) << damaged.err;
  const ProgramEnd rest = inspect_document(folder / "out");
  EXPECT_EQ(rest.code, 1);
  EXPECT_NE(rest.out.find("checkpoint of step 3 of 9, epoch 1.50"), std::string::npos) << rest.out;
  EXPECT_NE(rest.out.find("checkpoint-12 cannot be used"), std::string::npos) << rest.out;
}

}  // namespace
}  // namespace lockstep
