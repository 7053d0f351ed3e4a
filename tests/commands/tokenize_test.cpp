// Tests `lockstep tokenize` and `lockstep tokenizer train`.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

void write(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

std::string read(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

ProgramEnd tokenize(const TemporaryFolder& folder, const std::string& input, const CommandWords& flags) {
  CommandWords words{"tokenize", "--tokenizer", folder.path()};
  words.insert(words.end(), flags.begin(), flags.end());
  return run_command(words, input);
}

class TokenizeCommand : public ::testing::Test {
 protected:
  void SetUp() override { write(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nboat\n##s\nis\nhere\n"); }
  TemporaryFolder folder_;
};

TEST_F(TokenizeCommand, PrintsIdsLineByLine) {
  const auto ids = tokenize(folder_, "The boats\n\nhere", {});
  EXPECT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(ids.out, "2 4 5 6 3\n2 3\n2 8 3\n");
  EXPECT_EQ(tokenize(folder_, "The boats\n\n", {"--no-special-tokens"}).out, "4 5 6\n\n");
  EXPECT_EQ(tokenize(folder_, "the boat is here\n", {"--max-length", "4"}).out, "2 4 5 3\n");
  EXPECT_EQ(tokenize(folder_, "the boat\tis here\n", {"--pair"}).out, "2 4 5 3 7 8 3\n");
  EXPECT_EQ(tokenize(folder_, "", {}).out, "");
}

TEST_F(TokenizeCommand, PrintsObjects) {
  const auto end = tokenize(folder_, "The boats\tis\n", {"--pair", "--json"});
  EXPECT_EQ(end.code, 0) << end.err;
  const auto object = nlohmann::json::parse(end.out);
  EXPECT_EQ(object["ids"], nlohmann::json({2, 4, 5, 6, 3, 7, 3}));
  EXPECT_EQ(object["tokens"], nlohmann::json({"[CLS]", "the", "boat", "##s", "[SEP]", "is", "[SEP]"}));
  EXPECT_EQ(object["token_type_ids"], nlohmann::json({0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(object["attention_mask"], nlohmann::json({1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(object["offsets"][2], nlohmann::json({4, 8}));
}

TEST_F(TokenizeCommand, NamesTheLineThatIsWrong) {
  const auto pair = tokenize(folder_, "the\tboat\nthe boat\n", {"--pair"});
  EXPECT_EQ(pair.code, 1);
  EXPECT_TRUE(says(pair.err, "standard input, line 2")) << pair.err;
  const auto length = tokenize(folder_, "the\n", {"--max-length", "1"});
  EXPECT_EQ(length.code, 1);
  EXPECT_TRUE(says(length.err, "leaves no room for the 2 special tokens")) << length.err;
  const auto missing = run_command({"tokenize", "--tokenizer", folder_ / "nothing"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(says(missing.err, "there is no folder " + (folder_ / "nothing"))) << missing.err;
  EXPECT_TRUE(says(missing.err, "--tokenizer")) << missing.err;
}

TEST_F(TokenizeCommand, LinesMayEndWithCr) {
  const std::string plain = tokenize(folder_, "the\nboat\n", {}).out;
  EXPECT_EQ(tokenize(folder_, "the\rboat", {}).out, plain);
  EXPECT_EQ(tokenize(folder_, "the\r\nboat\r\n", {}).out, plain);
}

TEST(TokenizerTrain, LearnsFromTextAndFromAColumn) {
  const TemporaryFolder folder;
  write(folder / "corpus.txt", "The boat, the boats.\nThe boat!\n");
  write(folder / "reviews.csv", "id,review\n1,\"The boat, the boats.\"\n2,The boat!\n");
  const auto text =
      run_command({"tokenizer", "train", "--output", folder / "a", "--vocab-size", "40", folder / "corpus.txt"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(says(text.out, "from 2 texts with 6 different words")) << text.out;
  write(folder / "returns.txt", "The boat, the boats.\rThe boat!\r");
  EXPECT_TRUE(
      says(run_well({"tokenizer", "train", "--output", folder / "r", "--vocab-size", "40", folder / "returns.txt"}),
           "from 2 texts with 6 different words"));
  EXPECT_TRUE(says(run_well({"inspect", "--json", folder / "returns.txt"}), "\"rows\": 2"));
  const auto column = run_command({"tokenizer", "train", "--output", folder / "b", "--vocab-size", "40", "--column",
                                   "review", folder / "reviews.csv"});
  EXPECT_EQ(column.code, 0) << column.err;
  EXPECT_EQ(read(folder / "a/vocab.txt"), read(folder / "b/vocab.txt"));
  EXPECT_TRUE(says(read(folder / "a/vocab.txt"), "\nboat\n"));
  EXPECT_TRUE(says(read(folder / "a/tokenizer_config.json"), "\"do_lower_case\": true"));
  const auto ids = run_command({"tokenize", "--tokenizer", folder / "a", "--json"}, "the boats!\n");
  EXPECT_TRUE(says(ids.out, "\"the\",\"boat")) << ids.out << ids.err;
}

// As GLUE's files are, and archives without a header.
TEST(TokenizerTrain, ReadsTablesWithoutQuotesOrHeader) {
  const TemporaryFolder folder;
  write(folder / "corpus.txt", "\"The boat, the boats.\nThe boat!\n");
  write(folder / "rows.tsv", "1\t\"The boat, the boats.\n2\tThe boat!\n");
  const auto train = [&](const std::string& output, const CommandWords& more) {
    CommandWords all{"tokenizer", "train", "--output", folder / output, "--vocab-size", "40"};
    all.insert(all.end(), more.begin(), more.end());
    return run_command(all);
  };
  ASSERT_EQ(train("lines", {folder / "corpus.txt"}).code, 0);
  const CommandWords flags{"--quoting", "none", "--no-header", "--column", "2"};
  CommandWords table = flags;
  table.push_back(folder / "rows.tsv");
  const auto rows = train("rows", table);
  EXPECT_EQ(rows.code, 0) << rows.err;
  EXPECT_TRUE(says(rows.out, "from 2 texts")) << rows.out;
  EXPECT_EQ(read(folder / "lines/vocab.txt"), read(folder / "rows/vocab.txt"));
  write(folder / "rows.csv", "\xEF\xBB\xBF\"The boat, the boats.;1\nThe boat!;2\n");
  const auto other =
      train("other", {"--quoting", "none", "--no-header", "--column", "1", "--delimiter", ";", folder / "rows.csv"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(read(folder / "lines/vocab.txt"), read(folder / "other/vocab.txt"));
  table.back() = folder / "corpus.txt";
  const auto lines = train("out", table);
  EXPECT_EQ(lines.code, 2);
  EXPECT_TRUE(says(lines.err, "--quoting cannot be used: the file is not a table")) << lines.err;
  const auto no_column = train("out", {"--no-header", "--quoting", "none", "--column", "3", folder / "rows.tsv"});
  EXPECT_TRUE(says(no_column.err, "choose one of: 1, 2")) << no_column.err;
}

TEST(TokenizerTrain, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  write(folder / "reviews.csv", "id,review\n1,good\n2,\"bad\n");
  const auto train = [&](const CommandWords& more) {
    CommandWords all = {"tokenizer", "train", "--output", folder / "out", folder / "reviews.csv"};
    all.insert(all.end(), more.begin(), more.end());
    return run_command(all);
  };
  const auto unnamed = train({});
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_TRUE(says(unnamed.err, "name the text column with --column")) << unnamed.err;
  const auto other = train({"--column", "text"});
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(says(other.err, "choose one of: id, review")) << other.err;
  const auto broken = train({"--column", "review"});
  EXPECT_EQ(broken.code, 1);
  EXPECT_TRUE(says(broken.err, "reviews.csv:3")) << broken.err;
}

}  // namespace
}  // namespace lockstep
