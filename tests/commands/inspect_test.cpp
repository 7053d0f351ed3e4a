// Tests `lockstep inspect`, on shipped files, on files made here, and on damaged ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd inspect(CommandWords arguments) {
  arguments.insert(arguments.begin(), "inspect");
  return run_command(arguments);
}

nlohmann::json inspect_json(CommandWords arguments) {
  arguments.push_back("--json");
  const ProgramEnd end = inspect(arguments);
  EXPECT_EQ(end.code, 0) << end.err;
  return nlohmann::json::parse(end.out, nullptr, false);
}

void put(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

// Writes a safetensors file: eight bytes of length, header, data.
void put_safetensors(const std::string& path, const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  put(path, length + header + data);
}

const std::string kTwoTensors = R"({"__metadata__":{"format":"pt"},)"
                                R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                R"("b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})";

TEST(InspectCommand, CountsTheLabelsOfATable) {
  const auto found = inspect_json({kShipped + "reviews.csv"});
  EXPECT_EQ(found["rows"], 4000);
  ASSERT_EQ(found["columns"].size(), 3U);
  EXPECT_EQ(found["columns"][0]["name"], "review");
  EXPECT_FALSE(found["columns"][0].contains("values"));
  EXPECT_EQ(found["columns"][1]["min"], 1);
  EXPECT_EQ(found["columns"][1]["max"], 5);
  std::int64_t rows = 0;
  for (const auto& [name, count] : found["columns"][2]["values"].items()) rows += count.get<std::int64_t>();
  EXPECT_EQ(rows, 4000);
  const ProgramEnd text = inspect({kShipped + "reviews.csv"});
  EXPECT_TRUE(says(text.out, "4000 rows")) << text.out;
  EXPECT_TRUE(says(text.out, "negative 1507")) << text.out;
}

TEST(InspectCommand, WritesNothingThatATerminalWouldObey) {
  const TemporaryFolder folder;
  put(folder / "a.csv", "a\x1b]0;title\x07,label\n1,\x1b[31mx\n");
  const ProgramEnd end = inspect({folder / "a.csv"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.out.find('\x1b'), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("a\\x1b]0;title\\x07"), std::string::npos) << end.out;
  put(folder / "b.csv", std::string(1 << 20, 'A') + ",label\n1,x\n");
  EXPECT_LT(inspect({folder / "b.csv"}).out.size(), 2000U);
}

TEST(InspectCommand, ReadsTablesAsTheyAreToldTo) {
  const TemporaryFolder folder;
  put(folder / "glue.tsv", "a \"b\tx\nc\ty\n");
  const auto glue = inspect_json({"--no-header", "--no-quotes", folder / "glue.tsv"});
  EXPECT_EQ(glue["rows"], 2);
  EXPECT_EQ(glue["columns"][0]["name"], "column 1");
  put(folder / "data.txt", "x;y\n1;2\n3;2\n");
  const auto other = inspect_json({"--delimiter", ";", folder / "data.txt"});
  EXPECT_EQ(other["columns"][0]["max"], 3);
  EXPECT_EQ(other["columns"][1]["values"], nlohmann::json({{"2", 2}}));
  EXPECT_EQ(inspect_json({folder / "data.txt"})["kind"], "text");
}

TEST(InspectCommand, ReadsJsonLines) {
  const TemporaryFolder folder;
  put(folder / "a.jsonl",
      "{\"text\":\"one\",\"label\":1}\n\n{\"text\":\"two\",\"label\":1}\n{\"text\":\"six\",\"label\":0}\n");
  const auto found = inspect_json({folder / "a.jsonl"});
  EXPECT_EQ(found["rows"], 3);
  EXPECT_EQ(found["columns"][0]["name"], "label");
  EXPECT_EQ(found["columns"][0]["values"], nlohmann::json({{"0", 1}, {"1", 2}}));
}

TEST(InspectCommand, ReadsIdxFiles) {
  const TemporaryFolder folder;
  put(folder / "t10k-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x04", 8) + std::string("\x07\x02\x07\x07", 4));
  const auto found = inspect_json({folder / "t10k-labels-idx1-ubyte"});
  EXPECT_EQ(found["shape"], nlohmann::json({4}));
  EXPECT_EQ(found["labels"], nlohmann::json({{"2", 1}, {"7", 3}}));
  EXPECT_EQ(inspect_json({folder.path()})["files"].size(), 1U);
}

TEST(InspectCommand, ListsTensors) {
  const TemporaryFolder folder;
  put_safetensors(folder / "model.safetensors", kTwoTensors, std::string(32, '\0'));
  const auto found = inspect_json({folder / "model.safetensors"});
  EXPECT_EQ(found["elements"], 7);
  EXPECT_EQ(found["metadata"], nlohmann::json({{"format", "pt"}}));
  ASSERT_EQ(found["tensors"].size(), 2U);
  EXPECT_EQ(found["tensors"][0]["name"], "w");
  EXPECT_EQ(found["tensors"][0]["shape"], nlohmann::json({2, 3}));
  EXPECT_EQ(found["tensors"][1]["dtype"], "I64");
  EXPECT_EQ(found["tensors"][1]["bytes"], 8);
}

TEST(InspectCommand, ListsShards) {
  const TemporaryFolder folder;
  put_safetensors(folder / "a.safetensors", R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy");
  put_safetensors(folder / "b.safetensors", R"({"v":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "z");
  const std::string index = folder / "model.safetensors.index.json";
  put(index, R"({"metadata":{},"weight_map":{"w":"a.safetensors","v":"b.safetensors"}})");
  const auto found = inspect_json({index});
  EXPECT_EQ(found["files"].size(), 2U);
  EXPECT_EQ(found["elements"], 3);
  std::filesystem::remove(folder / "b.safetensors");
  const ProgramEnd missing = inspect({index});
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(says(missing.err, "b.safetensors")) << missing.err;
}

TEST(InspectCommand, SaysWhatDoesNotFitInAModelFolder) {
  const TemporaryFolder folder;
  put_safetensors(folder / "model.safetensors", kTwoTensors, std::string(32, '\0'));
  put(folder / "config.json", R"({"model_type":"bert","vocab_size":3,"id2label":{"0":"bad","1":"good"}})");
  put(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nboat\n");
  const ProgramEnd end = inspect({folder.path(), "--json"});
  EXPECT_EQ(end.code, 1);
  const auto found = nlohmann::json::parse(end.out);
  EXPECT_EQ(found["config"]["labels"], nlohmann::json({"bad", "good"}));
  EXPECT_EQ(found["weights"]["elements"], 7);
  EXPECT_EQ(found["tokenizer"]["vocab_size"], 6);
  EXPECT_EQ(found["tokenizer"]["special_tokens"]["cls"]["id"], 2);
  ASSERT_EQ(found["problems"].size(), 1U);
  EXPECT_TRUE(says(found["problems"][0], "ids up to 5, but the model embeds only 3"));
  EXPECT_TRUE(says(inspect({folder.path()}).out, "problem: the tokenizer")) << "as text too";
}

// As loading does, which keeps both.
TEST(InspectCommand, WarnsOfTiedTensorsThatDiffer) {
  const TemporaryFolder folder;
  const std::string header = R"({"transformer.wte.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                             R"("lm_head.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}})";
  put(folder / "config.json",
      R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"vocab_size":2,"n_embd":1,"n_head":1,"n_layer":1})");
  put_safetensors(folder / "model.safetensors", header, std::string(16, '\1'));
  EXPECT_FALSE(inspect_json({folder.path()}).contains("warnings"));
  put_safetensors(folder / "model.safetensors", header, std::string(8, '\1') + std::string(8, '\2'));
  const auto found = inspect_json({folder.path()});
  ASSERT_EQ(found["warnings"].size(), 1U) << found;
  EXPECT_TRUE(says(found["warnings"][0], "ties lm_head.weight to transformer.wte.weight"));
  EXPECT_TRUE(says(inspect({folder.path()}).out, "warning: The config.json")) << "as text too";
}

TEST(InspectCommand, ReadsTheShippedTokenizers) {
  const auto wordpiece = inspect_json({kShipped + "reviews-vocab"});
  EXPECT_EQ(wordpiece["vocab_size"], 2000);
  EXPECT_EQ(wordpiece["special_tokens"]["mask"]["token"], "[MASK]");
  EXPECT_EQ(inspect_json({kShipped + "bytes-vocab"})["vocab_size"], 257);
}

struct DamagedFile {
  const char* name;
  std::string file;
  std::string content;
  std::string says;
  friend std::ostream& operator<<(std::ostream& out, const DamagedFile& c) { return out << c.name; }
};
class InspectRefuses : public ::testing::TestWithParam<DamagedFile> {};

TEST_P(InspectRefuses, ADamagedFile) {
  const TemporaryFolder folder;
  const std::string path = folder / GetParam().file;
  put(path, GetParam().content);
  const ProgramEnd end = inspect({path});
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_NE(end.err.find(GetParam().says), std::string::npos) << end.err;
  EXPECT_TRUE(says(end.err, path)) << end.err;
}
INSTANTIATE_TEST_SUITE_P(
    Table, InspectRefuses,
    ::testing::Values(DamagedFile{"cut_safetensors", "a.safetensors", std::string("\x20\0\0\0\0\0\0\0{\"w\":", 13),
                                  "header"},
                      DamagedFile{"huge_header", "a.safetensors", std::string(8, '\x7f') + "{}", "header"},
                      DamagedFile{"short_row", "a.csv", "x,y\n1,2\n3\n", "has 1 fields, but the first 2"},
                      DamagedFile{"open_quote", "a.csv", "x,y\n\"1,2\n", "quote"},
                      DamagedFile{"empty_table", "a.csv", "", "the file is empty"},
                      DamagedFile{"no_json", "a.jsonl", "{\"text\": \"x\"}\n{\"text\"\n", ":2"},
                      DamagedFile{"array_line", "a.jsonl", "[1]\n", "not an object"},
                      DamagedFile{"deep_line", "a.jsonl", std::string(100000, '['), "nested"},
                      DamagedFile{"cut_idx", "a-ubyte", std::string("\0\0\x08\x01\0\0\0\x04\x07", 9), "IDX"},
                      DamagedFile{"binary_text", "a.txt", std::string("a\0b", 3), "NUL"},
                      DamagedFile{"broken_config", "config.json", "{\"model_type\":", "JSON"},
                      DamagedFile{"unknown_kind", "a.bin", "abc", "what kind of file"}),
    [](const auto& test) { return test.param.name; });

TEST(InspectCommand, NamesAPathThatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(inspect({folder / "nothing"}).err, "no such file or folder"));
  EXPECT_TRUE(says(inspect({folder.path()}).err, "contains no model, tokenizer or dataset"));
  EXPECT_EQ(inspect({folder.path(), "--delimiter", "ab"}).code, 2);
}

}  // namespace
}  // namespace lockstep
