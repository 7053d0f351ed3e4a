// Columns of a table that a training leaves out.
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/support/table_training.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

// The table, with a column `name` before the others that counts the rows.
std::string with_counted_rows(const std::string& table, const std::string& name) {
  std::string text;
  int row = -1;
  for (std::size_t at = 0; at < table.size(); at = table.find('\n', at) + 1, ++row) {
    text += (row < 0 ? name : std::to_string(row)) + "," + table.substr(at, table.find('\n', at) + 1 - at);
  }
  return text;
}

TEST(TableColumns, WithoutANameAreNoFeatures) {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& file, const std::string& output) {
    const ProgramEnd end =
        run_command(table_training(file, output, {"--max-steps", "2", "--save-strategy", "no", "--seed", "3"}));
    EXPECT_EQ(end.code, 0) << end.err;
    return end.out + end.err;
  };
  const std::string plain = write_lines(folder / "plain.csv", table_text(40));
  train(plain, folder / "plain");
  for (const char* name : {"", " ", "Unnamed: 0"}) {
    const std::string counted = write_lines(folder / "counted.csv", with_counted_rows(table_text(40), name));
    const std::string said = train(counted, folder / "counted");
    EXPECT_TRUE(says(
        said, "the column \"" + std::string(name) + "\", number 1 of " + counted + ", is left out: it has no name"))
        << said;
    EXPECT_TRUE(read_file(folder / "counted/model.safetensors") == read_file(folder / "plain/model.safetensors"));
    const CommandWords predict{"predict", "--json", "--model", folder / "counted", "--file"};
    CommandWords from_plain = predict, from_counted = predict;
    from_plain.push_back(plain);
    from_counted.push_back(counted);
    EXPECT_EQ(run_well(from_counted), run_well(from_plain));
  }
}

}  // namespace
}  // namespace lockstep
