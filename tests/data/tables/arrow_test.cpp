// Tests Arrow's files, streams and folders, beside what table_files_test.cpp reads of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/data/text_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::string arrow_file(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/tables/files/" + name;
}

TextFileOptions classes_of_saved() {
  TextFileOptions options;
  options.texts = {"last"};
  options.label = "label";
  options.missing_labels = RowPolicy::Skip;
  return options;
}

TEST(Arrow, ShowsTheTypesOfAllColumns) {
  using Columns = std::vector<std::pair<std::string, std::string>>;
  for (const char* name : {"stream.arrow", "file.arrow", "lz4.arrow"}) {
    const TableSchema schema = read_arrow_schema(arrow_file(name));
    EXPECT_EQ(schema.rows, 60);
    EXPECT_EQ(schema.columns, (Columns{{"text", "string"},
                                       {"kind", "dictionary<values=string, indices=int32>"},
                                       {"stars", "int64"},
                                       {"flag", "bool"},
                                       {"score", "double"},
                                       {"small", "uint8"},
                                       {"tags", "list<string>"},
                                       {"place", "struct<x: int64, y: list<double>>"},
                                       {"raw", "binary"},
                                       {"last", "large_string"}}));
  }
}

TEST(Arrow, ReadsTheFilesOfASavedDatasetInOrder) {
  const std::string folder = arrow_file("saved");
  const auto rows = open_text_file(folder, classes_of_saved());
  using Labels = std::map<std::string, std::int64_t>;
  EXPECT_EQ(rows->labels(), (Labels{{"neg", 0}, {"neutral", 1}, {"pos", 2}, {"mixed", 3}}));
  ASSERT_EQ(rows->size(), 59);  // one of them has no class
  for (const int row : {0, 4, 6, 39, 40, 59}) {
    const TextRow got = rows->get(row < 5 ? row : row - 1);
    EXPECT_EQ(got.texts[0], std::to_string(row));
    EXPECT_EQ(got.label, row * 2 % 3);
  }
  EXPECT_EQ(rows->where(58), folder + ", row 60");
  EXPECT_EQ(read_arrow_schema(folder).rows, 60);
}

TEST(Arrow, NamesTheSplitsOfAFolder) {
  const TemporaryFolder folder;
  std::ofstream(folder / "dataset_dict.json") << R"({"splits": ["train", "test"]})";
  const std::string path = folder.path();
  expect_error("several splits of a dataset: train, test", [&] { open_text_file(path, classes_of_saved()); });
  expect_error("name one of them: " + folder / "train", [&] { read_arrow_schema(path); });
}

TEST(Arrow, RefusesAFolderThatIsDamaged) {
  const TemporaryFolder folder;
  const auto with_state = [&](const std::string& state) {
    std::ofstream(folder / "state.json") << state;
    return [&] { read_arrow_schema(folder.path()); };
  };
  expect_error("it does not list the files of a dataset", with_state(R"({"files": []})"));
  expect_error("the dataset has no files", with_state(R"({"_data_files": []})"));
  expect_error("is not the name of a file in the folder",
               with_state(R"({"_data_files": [{"filename": "../data.arrow"}]})"));
  expect_error("cannot open", with_state(R"({"_data_files": [{"filename": "data.arrow"}]})"));
  std::filesystem::copy_file(arrow_file("stream.arrow"), folder / "a.arrow");
  std::filesystem::copy_file(arrow_file("saved/data-00000-of-00002.arrow"), folder / "b.arrow");
  expect_error("its columns differ from those of",
               with_state(R"({"_data_files": [{"filename": "a.arrow"}, {"filename": "b.arrow"}]})"));
}

TEST(Arrow, RefusesWhatItDoesNotRead) {
  TextFileOptions options;
  options.texts = {"last"};
  expect_error("it is compressed by LZ4, which is not read", [&] { open_text_file(arrow_file("lz4.arrow"), options); });
  options.texts = {"tags"};
  expect_error("the column \"tags\" holds values of type list<string>",
               [&] { open_text_file(arrow_file("stream.arrow"), options); });
  const TemporaryFolder folder;
  std::ofstream(folder / "a.arrow") << "text,label\n";
  expect_error("it does not begin as a file or a stream of Arrow does", [&] { read_arrow_schema(folder / "a.arrow"); });
}

}  // namespace
}  // namespace lockstep
