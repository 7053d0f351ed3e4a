// Tests what ranks of `lockstep train` and `evaluate` say of files that they cannot use: the launcher prints it once,
// and no rank is started again.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/train/review_classification.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

const std::string kDataErrorsLockstep = std::string(LOCKSTEP_BIN_DIR) + "/lockstep";

std::vector<std::string> on_three_ranks(const std::vector<std::string>& words) {
  return joined_words({kDataErrorsLockstep, "run", "--nproc-per-node", "3", "--max-restarts", "3"}, words);
}

std::vector<std::string> training_of(const std::string& file, const std::string& output) {
  return text_classification(file, output, {"--max-length", "8", "--max-steps", "2", "--save-strategy", "no"});
}

void expect_said_once(const ProgramEnd& end, const std::string& error) {
  EXPECT_EQ(end.code, 1);
  EXPECT_EQ(count_in(end.err, error), 1U) << end.err;
  EXPECT_EQ(count_in(end.err, "[rank "), 0U) << end.err;
  EXPECT_EQ(end.err.find("restart"), std::string::npos) << end.err;
}

TEST(DataErrors, OfOneFileAreSaidOnce) {
  const TemporaryFolder folder;
  const std::string file = write_lines(folder / "rows.csv", "text,label\ngood,yes\n,no\nbad,no\n");
  const std::string error = "the text \"text\" is empty";
  expect_said_once(run_program(on_three_ranks(training_of(file, folder / "out"))), error);
  expect_said_once(run_program(on_three_ranks(training_of(folder / "none.csv", folder / "out"))),
                   "none.csv: No such file");
}

// Each rank reads a file of its own: what is found when the ranks have met is one error, too.
TEST(DataErrors, OfFilesThatDifferAreSaidOnce) {
  const TemporaryFolder folder;
  for (const std::string rank : {"0", "1", "2"}) {
    write_lines(folder / ("rows" + rank + ".csv"),
                "text,label\ngood,yes\n" + std::string(rank == "1" ? "worse" : "bad") + ",no\n");
  }
  std::string command = "exec";
  for (const std::string& word : training_of(folder / "rows${RANK}.csv", folder / "out"))
    command += " \"" + word + "\"";
  expect_said_once(run_program(on_three_ranks({"sh", "-c", command})), "the ranks have not read the same data");
}

}  // namespace
}  // namespace lockstep
