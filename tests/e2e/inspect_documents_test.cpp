// `lockstep inspect` of JSON documents and Parquet files.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd inspect_document(const std::string& path, bool json = false) {
  std::vector<std::string> command{std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "inspect", path};
  if (json) command.push_back("--json");
  return run_program(command);
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

}  // namespace
}  // namespace lockstep
