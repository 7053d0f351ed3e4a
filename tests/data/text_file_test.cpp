#include "lockstep/data/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/data/gzip_file.h"
#include "tests/data/zstd_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Labels = std::map<std::string, std::int64_t>;

class TextFile : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    write_file_atomically(folder_ / name, content);
    return folder_ / name;
  }
  static TextFileOptions columns(std::vector<std::string> texts, std::string label = "", Labels labels = {}) {
    TextFileOptions options;
    options.texts = std::move(texts);
    options.label = std::move(label);
    options.labels = std::move(labels);
    return options;
  }
  // "text|text=label" of each row.
  static std::vector<std::string> rows(const TextDataset& dataset) {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const TextRow row = dataset.get(i);
      std::string shown = row.texts[0];
      for (std::size_t t = 1; t < row.texts.size(); ++t) shown += "|" + row.texts[t];
      if (row.label) shown += "=" + std::to_string(*row.label);
      all.push_back(shown);
    }
    return all;
  }
  using Rows = std::vector<std::string>;
  TemporaryFolder folder_;
};

constexpr const char* kReviewsCsv =
    "review,stars,division\n"
    "\"Good, really\ngood\",5,positive\n"
    "So so,3,neutral\n"
    "\"He said \"\"no\"\"\",1,negative\n";

TEST_F(TextFile, ReadsCsvWithQuotedLineEnds) {
  const std::string reviews = kReviewsCsv;
  for (const std::string& content : {reviews, gzip_bytes(reviews), zstd_bytes(reviews), "\xef\xbb\xbf" + reviews}) {
    const auto dataset = open_text_file(file("reviews.csv", content), columns({"review"}, "stars"));
    EXPECT_EQ(rows(*dataset), (Rows{"Good, really\ngood=2", "So so=1", "He said \"no\"=0"}));
    EXPECT_EQ(dataset->labels(), (Labels{{"1", 0}, {"3", 1}, {"5", 2}}));
    EXPECT_EQ(dataset->fields(), (std::vector<std::string>{"review"}));
    EXPECT_EQ(dataset->where(0), folder_ / "reviews.csv:2");
    EXPECT_EQ(dataset->where(1), folder_ / "reviews.csv:4");
    EXPECT_EQ(dataset->where(2), folder_ / "reviews.csv:5");
  }
}

TEST_F(TextFile, LeavesOutRowsWhoseLabelIsNotListed) {
  TextFileOptions options = columns({"review"}, "division", {{"negative", 0}, {"positive", 1}});
  const std::string path = file("reviews.csv", kReviewsCsv);
  expect_error("\"neutral\" in the column \"division\" is not one of the labels negative, positive",
               [&] { open_text_file(path, options); });
  expect_error("reviews.csv:4:9", [&] { open_text_file(path, options); });
  options.unlisted_labels = RowPolicy::Skip;
  EXPECT_EQ(rows(*open_text_file(path, options)), (Rows{"Good, really\ngood=1", "He said \"no\"=0"}));
}

TEST_F(TextFile, LeavesOutRowsWithoutALabel) {
  TextFileOptions options = columns({"t"}, "l");
  const std::string csv = file("a.csv", "t,l\nx,b\ny,\nz,a\nw,\" \"\n");
  const std::string lines = file("a.jsonl", R"({"t": "x", "l": "b"})"
                                            "\n"
                                            R"({"t": "y", "l": null})"
                                            "\n"
                                            R"({"t": "z", "l": "a"})");
  for (const std::string& path : {csv, lines}) {
    options.missing_labels = RowPolicy::Refuse;
    expect_error("--missing-labels skip", [&] { open_text_file(path, options); });
    options.missing_labels = RowPolicy::Skip;
    EXPECT_EQ(rows(*open_text_file(path, options)), (Rows{"x=1", "z=0"}));
  }
  options.missing_labels = RowPolicy::Keep;
  expect_error("cannot be kept", [&] { open_text_file(csv, options); });
}

TEST_F(TextFile, ReadsSeveralLabelsOfARow) {
  TextFileOptions options = columns({"t"});
  options.label_columns = {"u", "v"};
  const Labels want{{"[\"u\",\"v\"]", 0}, {"[\"v\"]", 1}, {"[]", 2}};
  const std::string csv = file("a.csv", "t,u,v\nx,1,True\ny,0,1\nz,0.0,0\n");
  const std::string flags = file("flags.jsonl", R"({"t": "x", "u": true, "v": 1})"
                                                "\n"
                                                R"({"t": "y", "u": 0, "v": 1.0})"
                                                "\n"
                                                R"({"t": "z", "u": false, "v": 0})");
  for (const std::string& path : {csv, flags}) {
    const auto dataset = open_text_file(path, options);
    EXPECT_EQ(dataset->labels(), want) << path;
    EXPECT_EQ(rows(*dataset), (Rows{"x=0", "y=1", "z=2"}));
  }
  expect_error("a.txt", [&] { open_text_file(file("a.txt", "x\n"), options); });
  expect_error("\"v\" is \"2\"", [&] { open_text_file(file("b.csv", "t,u,v\nx,1,2\n"), options); });

  options = columns({"t"}, "l");
  // The second line is left to the full parser, because of its long number.
  const std::string lists = file("lists.jsonl", R"({"t": "x", "l": ["u", "v"]})"
                                                "\n"
                                                R"({"l": ["v"], "t": "y", "n": 123456789012345678901234567890})"
                                                "\n"
                                                R"({"t": "z", "l": []})");
  expect_error("is an object or array", [&] { open_text_file(lists, options); });
  options.label_lists = true;
  EXPECT_EQ(open_text_file(lists, options)->labels(), want);
}

// What datasets.load_dataset("json") reads from files named .json, beside SQuAD's format.
TEST_F(TextFile, ReadsJsonByItsContent) {
  const TextFileOptions options = columns({"t"}, "l");
  const Rows want{"x=0", "y [{\"}]=1"};
  const std::string one = R"({"t": "x", "l": "a"})", two = R"({"l": "b", "t": "y [{\"}]", "more": [{}, [1]]})";
  for (const std::string& content :
       {one + "\n" + two, "[" + one + "," + two + "]", " [\n" + one + " ,\n\n " + two + "\n]\n",
        "[{\"t\":\n\"x\",\n\"l\":\"a\"}," + two + "]"}) {
    const auto dataset = open_text_file(file("a.json", content), options);
    EXPECT_EQ(rows(*dataset), want) << content;
    EXPECT_EQ(open_text_file(file("a.json.gz", gzip_bytes(content)), options)->size(), 2);
    EXPECT_EQ(open_text_file(file("a.json.zst", zstd_bytes(content)), options)->size(), 2);
  }
  EXPECT_EQ(open_text_file(file("a.json", "[\n" + one + ",\n" + two + "]"), options)->where(1), folder_ / "a.json:3");
  for (const auto& [content, problem] :
       std::vector<std::pair<std::string, std::string>>{{"[" + one + " " + two + "]", "no comma"},
                                                        {"[" + one, "no end"},
                                                        {"[1]", "is not an object"},
                                                        {"[" + one + ",]", "is not an object"},
                                                        {"[" + one + "] 1", "something after"},
                                                        {"[]", "no rows"},
                                                        {"[{\"t\": \"x\"", "not valid JSON"}}) {
    expect_error(problem, [&, text = content] { open_text_file(file("b.json", text), options); });
  }
}

TEST_F(TextFile, NumbersLearnedLabelsBySizeOrElseByText) {
  const auto labels = [&](const std::string& content) {
    return open_text_file(file("a.csv", "t,l\n" + content), columns({"t"}, "l"))->labels();
  };
  EXPECT_EQ(labels("x,10\nx,9\nx,10\nx,-1\n"), (Labels{{"-1", 0}, {"9", 1}, {"10", 2}}));
  EXPECT_EQ(labels("x,10\nx,9\nx,b\n"), (Labels{{"10", 0}, {"9", 1}, {"b", 2}}));
}

TEST_F(TextFile, ReadsPairsFromTsvWithoutHeaderAndQuotes) {
  TextFileOptions options = columns({"premise", "hypothesis"}, "label");
  options.column_names = {"label", "premise", "hypothesis"};
  options.dialect.quote = '\0';
  const auto dataset = open_text_file(file("nli.tsv", "1\t\"so\tyes\n0\ta \"b\tno, \"\n\n2\tc\td"), options);
  EXPECT_EQ(rows(*dataset), (Rows{"\"so|yes=1", "a \"b|no, \"=0", "c|d=2"}));
  EXPECT_EQ(dataset->where(2), folder_ / "nli.tsv:4");
}

TEST_F(TextFile, ReadsJsonLines) {
  const std::string content =
      "{\"text\": \"caf\\u00e9\\n\", \"label\": 1, \"meta\": {\"text\": \"no\", \"label\": [1, {}]}}\n"
      "\n"
      "  {\"label\": 0, \"text\": \"b\"}\r\n"
      "{\"label\": true, \"more\": [], \"text\": \"c\"}";
  for (const std::string& bytes : {content, gzip_bytes(content)}) {
    const auto dataset = open_text_file(file("a.jsonl", bytes), columns({"text"}, "label"));
    EXPECT_EQ(rows(*dataset), (Rows{"café\n=1", "b=0", "c=2"}));
    EXPECT_EQ(dataset->labels(), (Labels{{"0", 0}, {"1", 1}, {"true", 2}}));
    EXPECT_EQ(dataset->where(1), folder_ / "a.jsonl:3");
  }
}

TEST_F(TextFile, OfTwoEqualKeysTheLastOneCountsAsInPython) {
  const auto dataset = open_text_file(file("a.jsonl", "{\"t\": \"a\", \"t\": \"b\"}"), columns({"t"}));
  EXPECT_EQ(rows(*dataset), (Rows{"b"}));
}

TEST_F(TextFile, ReadsSquadByQuestionOrContext) {
  const std::string path = file("squad.json", R"({"version": "1.1", "data": [
    {"title": "T", "paragraphs": [
      {"context": "C1", "qas": [{"id": "1", "question": "Q1", "answers": []}, {"id": "2", "question": "Q2"}]},
      {"context": "C2", "qas": [{"id": "3", "question": "Q3"}]}]}]})");
  EXPECT_EQ(rows(*open_text_file(path, columns({"question", "context"}))), (Rows{"Q1|C1", "Q2|C1", "Q3|C2"}));
  EXPECT_EQ(rows(*open_text_file(path, columns({"context"}))), (Rows{"C1", "C1", "C2"}));
  const auto contexts = read_squad_texts(path, columns({"title", "context"}), SquadRows::Contexts);
  EXPECT_EQ(rows(*contexts), (Rows{"T|C1", "T|C2"}));
  EXPECT_EQ(contexts->where(1), path + ": data[0].paragraphs[1]");
}

// Lines are looked for in blocks of 256 bytes: of every length about that, with every end.
TEST_F(TextFile, ReadsLinesAcrossBlocks) {
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    Rows want;
    std::string content;
    for (std::size_t length = 250; length < 260; ++length) {
      want.push_back(std::string(length, static_cast<char>('a' + length % 26)));
      content += want.back() + end;
    }
    EXPECT_EQ(rows(*read_text_lines(file("a.txt", content))), want) << end.size();
  }
}

// A file of an old Mac. It takes many seconds if the whole rest is searched for a line feed, for each line.
TEST_F(TextFile, ReadsManyLinesWithoutALineFeed) {
  constexpr std::size_t kLines = 300'000;
  std::string content;
  for (std::size_t i = 0; i < kLines; ++i) content += "a\r";
  const auto dataset = read_text_lines(file("mac.txt", content));
  EXPECT_EQ(dataset->size(), static_cast<std::int64_t>(kLines));
  EXPECT_EQ(dataset->get(kLines - 1).texts, std::vector<std::string>{"a"});
}

TEST_F(TextFile, ReadsPlainLines) {
  EXPECT_EQ(rows(*read_text_lines(file("a.txt", "one\r\ntwo\nthree"))), (Rows{"one", "two", "three"}));
  EXPECT_EQ(rows(*read_text_lines(file("a.txt", "\xef\xbb\xbfone\ntwo"))), (Rows{"one", "two"}));
  TextFileOptions options;
  options.empty_texts = RowPolicy::Skip;
  const auto dataset = read_text_lines(file("a.txt", "one\n \n\nfour\n"), options);
  EXPECT_EQ(rows(*dataset), (Rows{"one", "four"}));
  EXPECT_EQ(dataset->where(1), folder_ / "a.txt:4");
  options.empty_texts = RowPolicy::Keep;
  EXPECT_EQ(rows(*read_text_lines(file("a.txt", "one\n \n\nfour\n"), options)), (Rows{"one", " ", "", "four"}));
}

TEST_F(TextFile, KeepsOrSkipsInvalidTexts) {
  TextFileOptions options = columns({"t"});
  options.invalid_texts = RowPolicy::Skip;
  const std::string csv = file("a.csv", "t\na\xff\nb\n");
  const std::string jsonl = file("a.jsonl", "{\"t\": \"a\xff\"}\n{\"t\": \"b\"}\n");
  EXPECT_EQ(rows(*open_text_file(csv, options)), (Rows{"b"}));
  EXPECT_EQ(rows(*open_text_file(jsonl, options)), (Rows{"b"}));
  options.invalid_texts = RowPolicy::Keep;
  EXPECT_EQ(rows(*open_text_file(csv, options)), (Rows{"a\xff", "b"}));
  EXPECT_EQ(rows(*open_text_file(jsonl, options)), (Rows{"a\xef\xbf\xbd", "b"}));
}

TEST_F(TextFile, RowsThatAreLeftOutTeachNoLabels) {
  TextFileOptions options = columns({"t"}, "l");
  options.empty_texts = RowPolicy::Skip;
  const auto dataset = open_text_file(file("a.csv", "t,l\n ,odd\nx,b\ny,a\n"), options);
  EXPECT_EQ(dataset->labels(), (Labels{{"a", 0}, {"b", 1}}));
  EXPECT_EQ(rows(*dataset), (Rows{"x=1", "y=0"}));
}

TEST_F(TextFile, DeepJsonIsNoProblem) {
  const std::string deep(200000, '[');
  std::string line = "{\"x\": " + deep + std::string(deep.size(), ']') + ", \"t\": \"a\"}\n";
  EXPECT_EQ(rows(*open_text_file(file("a.jsonl", line), columns({"t"}))), (Rows{"a"}));
}

TEST_F(TextFile, SelectsSamplesAndJoinsRows) {
  const auto dataset = open_text_file(file("a.txt", "0\n1\n2\n3\n4\n"), columns({"text"}));
  EXPECT_EQ(rows(*select_rows(dataset, {4, 0, 4})), (Rows{"4", "0", "4"}));
  EXPECT_EQ(select_rows(dataset, {4, 0})->where(0), folder_ / "a.txt:5");
  // torch.manual_seed(0); torch.randperm(5) is 4 0 1 3 2
  EXPECT_EQ(rows(*sample_rows(dataset, 3, 0)), (Rows{"4", "0", "1"}));
  EXPECT_EQ(rows(*concat_rows({sample_rows(dataset, 2, 0), dataset})), (Rows{"4", "0", "0", "1", "2", "3", "4"}));
  EXPECT_EQ(concat_rows({dataset, dataset})->where(7), folder_ / "a.txt:3");
  expect_error("no row 5", [&] { select_rows(dataset, {5}); });
  expect_error("no row -1", [&] { dataset->get(-1); });
  expect_error("6 rows were asked for, but the dataset has 5", [&] { sample_rows(dataset, 6, 0); });
  const auto other = open_text_file(file("b.csv", "t\nx\n"), columns({"t"}));
  expect_error("dataset 1 has other fields", [&] { concat_rows({dataset, other}); });
}

TEST_F(TextFile, DigestFollowsContentAndOptionsAlone) {
  const std::string path = file("a.csv", kReviewsCsv);
  const std::string digest = open_text_file(path, columns({"review"}, "stars"))->digest();
  EXPECT_EQ(open_text_file(file("b.csv", kReviewsCsv), columns({"review"}, "stars"))->digest(), digest);
  EXPECT_NE(open_text_file(path, columns({"review"}))->digest(), digest);
  EXPECT_NE(open_text_file(path, columns({"division"}, "stars"))->digest(), digest);
  EXPECT_NE(open_text_file(path, columns({"review"}, "stars", {{"1", 0}, {"3", 1}, {"5", 2}}))->digest(), digest);
  const auto dataset = open_text_file(path, columns({"review"}, "stars"));
  EXPECT_NE(select_rows(dataset, {0, 1})->digest(), select_rows(dataset, {1, 0})->digest());
  std::string changed = kReviewsCsv;
  changed[changed.find("So so") + 3] = 'S';
  EXPECT_NE(open_text_file(file("a.csv", changed), columns({"review"}, "stars"))->digest(), digest);
}

}  // namespace
}  // namespace lockstep
