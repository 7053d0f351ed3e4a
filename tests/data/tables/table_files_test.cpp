// Reads files/, which make_tables.py wrote, and damaged copies of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "lockstep/data/text_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr int kTableRows = 60;

std::string table_file(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/tables/files/" + name;
}

std::string bytes_of_table(const std::string& name) {
  std::ifstream file(table_file(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// What make_tables.py put there.
std::string text_of_row(int row) { return row % 7 == 3 ? "" : fmt::format("review {}: café", row / 2); }

TextFileOptions table_columns(std::vector<std::string> texts, std::string label = "") {
  TextFileOptions options;
  options.texts = std::move(texts);
  options.label = std::move(label);
  options.empty_texts = RowPolicy::Keep;
  return options;
}

// The text of each row's label.
std::vector<std::string> label_texts(const TextDataset& rows) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    for (const auto& [text, label] : rows.labels()) {
      if (label == rows.get(i).label) texts.push_back(text);
    }
  }
  return texts;
}

class TableFiles : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return table_file(GetParam()); }
};

TEST_P(TableFiles, HoldTheRowsThatWereWritten) {
  const auto rows = open_text_file(path(), table_columns({"text", "last"}, "kind"));
  ASSERT_EQ(rows->size(), kTableRows);
  EXPECT_EQ(rows->labels(), (std::map<std::string, std::int64_t>{{"neg", 0}, {"neutral", 1}, {"pos", 2}}));
  for (int i = 0; i < kTableRows; ++i) {
    const int row = i * 37 % kTableRows;  // in some other order
    const TextRow got = rows->get(row);
    EXPECT_EQ(got.texts, (std::vector<std::string>{text_of_row(row), std::to_string(row)}));
    EXPECT_EQ(got.label, row % 3);
  }
  EXPECT_EQ(rows->where(59), path() + ", row 60");
}

TEST_P(TableFiles, HaveLabelsThatAreNumbersOrBooleans) {
  TextFileOptions options = table_columns({"last"}, "stars");
  options.missing_labels = RowPolicy::Skip;
  std::vector<std::string> want, flags, scores, small;
  for (int row = 0; row < kTableRows; ++row) {
    if (row % 20 != 19) want.push_back(std::to_string(row * row - 100));
    flags.emplace_back(row % 4 < 2 ? "true" : "false");
    scores.push_back(fmt::format("{}", row / 4.0));
    small.push_back(std::to_string(255 - row));
  }
  EXPECT_EQ(label_texts(*open_text_file(path(), options)), want);
  EXPECT_EQ(label_texts(*open_text_file(path(), table_columns({"last"}, "flag"))), flags);
  EXPECT_EQ(label_texts(*open_text_file(path(), table_columns({"last"}, "small"))), small);
  options = table_columns({"last"}, "score");
  expect_error("the label \"score\" is 0.25, not a class", [&] { open_text_file(path(), options); });
  options.fractions = true;
  EXPECT_EQ(label_texts(*open_text_file(path(), options)), scores);
}

TEST_P(TableFiles, AreTheSameOnSeveralThreads) {
  const auto rows = open_text_file(path(), table_columns({"text"}));
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20 * kTableRows; ++i) {
        const int row = (i * 7 + static_cast<int>(t)) % kTableRows;
        if (rows->get(row).texts[0] != text_of_row(row)) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

TEST(Parquet, ShowsTheTypesOfAllColumns) {
  const TableSchema schema = read_parquet_schema(table_file("plain.parquet"));
  EXPECT_EQ(schema.rows, kTableRows);
  using Columns = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(schema.columns, (Columns{{"text", "string"},
                                     {"kind", "string"},
                                     {"stars", "int64"},
                                     {"flag", "bool"},
                                     {"score", "double"},
                                     {"small", "uint8"},
                                     {"tags", "list<string>"},
                                     {"place", "struct<x: int64, y: list<double>>"},
                                     {"raw", "binary"},
                                     {"last", "string"}}));
}

// A byte of them wrong, or their end cut off: rows or an error, and nothing else.
TEST_P(TableFiles, AreReadOrRefusedWithAnyByteWrong) {
  const TemporaryFolder folder;
  const std::string whole = bytes_of_table(GetParam());
  for (std::size_t at = 0; at < whole.size(); at += 31) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (at % 2 == 0 ? 0xFF : 0x01));
    for (const std::string& changed : {bytes, whole.substr(0, at)}) {
      put_bytes(folder / GetParam(), changed);
      try {
        open_text_file(folder / GetParam(), table_columns({"text"}, "kind"));
      } catch (const Error& error) {
        EXPECT_NE(error.where().find(GetParam()), std::string::npos) << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TableFiles,
                         ::testing::Values("plain.parquet", "snappy.parquet", "gzip.parquet", "zstd.parquet",
                                           "delta.parquet", "stream.arrow", "file.arrow", "zstd.arrow"),
                         [](const auto& test) {
                           std::string name = test.param;
                           name[name.find('.')] = '_';
                           return name;
                         });

TEST(Parquet, RefusesWhatItDoesNotRead) {
  const std::string path = table_file("plain.parquet");
  expect_error("the column \"tags\" holds values of type list<string>",
               [&] { open_text_file(path, table_columns({"tags"})); });
  expect_error("the column \"stars\" holds values of type int64",
               [&] { open_text_file(path, table_columns({"stars"})); });
  expect_error("the column \"raw\" holds values of type binary", [&] { open_text_file(path, table_columns({"raw"})); });
  expect_error("the column \"place\" holds values of type struct<",
               [&] { open_text_file(path, table_columns({"text"}, "place")); });
  expect_error("did you mean 'text'?", [&] { open_text_file(path, table_columns({"texts"})); });
  expect_error("it is compressed by BROTLI, which is not read",
               [&] { open_text_file(table_file("brotli.parquet"), table_columns({"text"})); });
  TextFileOptions options = table_columns({"text"});
  options.empty_texts = RowPolicy::Refuse;
  expect_error("plain.parquet, row 4, column \"text\"", [&] { open_text_file(path, options); });
}

TEST(Parquet, RefusesFilesThatAreCutOrEncrypted) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& bytes) {
    put_bytes(folder / "a.parquet", bytes);
    read_parquet_schema(folder / "a.parquet");
  };
  expect_error("it does not end as Parquet does", [&] { read(bytes_of_table("plain.parquet").substr(0, 3000)); });
  expect_error("it does not end as Parquet does", [&] { read("PAR1"); });
  expect_error("its description is longer than the file", [&] { read("PAR1xxxxPAR1"); });
  expect_error("it does not begin as Parquet does", [&] { read("text,label\n"); });
  expect_error("it is encrypted", [&] { read("PAR1xxxxPARE"); });
}

TEST(Parquet, ChecksThePagesSums) {
  const TemporaryFolder folder;
  std::string bytes = bytes_of_table("zstd.parquet");
  const std::size_t frame = bytes.find("\x28\xb5\x2f\xfd");  // where a page begins that zstd compressed
  ASSERT_NE(frame, std::string::npos);
  bytes[frame + 20] ^= 1;
  put_bytes(folder / "a.parquet", bytes);
  expect_error("a page does not have its checksum",
               [&] { open_text_file(folder / "a.parquet", table_columns({"text"})); });
}

TEST(Parquet, CallsClassesByTheNamesThatDatasetsWrote) {
  const std::string path = table_file("classes.parquet");
  TextFileOptions options = table_columns({"text"}, "label");
  expect_error("row 6, column \"label\"", [&] { open_text_file(path, options); });  // -1: none
  options.missing_labels = RowPolicy::Skip;
  const auto rows = open_text_file(path, options);
  using Labels = std::map<std::string, std::int64_t>;
  EXPECT_EQ(rows->labels(), (Labels{{"neg", 0}, {"neutral", 1}, {"pos", 2}, {"mixed", 3}}));
  EXPECT_EQ(rows->size(), 59);
  for (const auto& [at, label] : {std::pair(0, 0), std::pair(1, 2), std::pair(2, 1), std::pair(5, 0)}) {
    EXPECT_EQ(rows->get(at).label, label) << at;
  }
  // Labels of another file: by names, or by numbers.
  options.labels = {{"pos", 0}, {"neg", 1}, {"neutral", 2}};
  EXPECT_EQ(open_text_file(path, options)->get(1).label, 0);
  options.labels = {{"0", 2}, {"1", 1}, {"2", 0}};
  EXPECT_EQ(open_text_file(path, options)->get(0).label, 2);
  options.labels = {{"0", 0}, {"1", 1}};
  expect_error("2\" in the column \"label\" is not one of the labels 0, 1", [&] { open_text_file(path, options); });
}

TEST(Parquet, MakesLabelsOfSeveralColumns) {
  TextFileOptions options = table_columns({"last"});
  options.label_columns = {"flag"};
  const auto rows = open_text_file(table_file("snappy.parquet"), options);
  EXPECT_EQ(rows->labels(), (std::map<std::string, std::int64_t>{{"[\"flag\"]", 0}, {"[]", 1}}));
  EXPECT_EQ(rows->get(2).label, 1);
}

TEST(Parquet, HasADigestOfItsBytes) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(table_file("plain.parquet"), folder / "a.parquet");
  const auto digest = [](const std::string& path) { return open_text_file(path, table_columns({"last"}))->digest(); };
  EXPECT_EQ(digest(folder / "a.parquet"), digest(table_file("plain.parquet")));
  EXPECT_NE(digest(folder / "a.parquet"), digest(table_file("gzip.parquet")));
}

}  // namespace
}  // namespace lockstep
