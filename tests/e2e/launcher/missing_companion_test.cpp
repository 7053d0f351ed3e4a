// Tests ranks whose program lacks a part that no further start would find.
#include <filesystem>

#include "tests/e2e/launch.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(MissingCompanion, RanksAreNotStartedAgain) {
  const TemporaryFolder folder;
  fs::copy_file(kBin + "/lockstep", folder / "lockstep");
  const ProgramEnd end =
      run({"--nproc-per-node=2", "--max-restarts=40"}, {folder / "lockstep", "train", "--task", "x"});
  EXPECT_NE(end.code, 0);
  EXPECT_TRUE(has(end.err, "there is no program " + (folder / "lockstep-torch"))) << end.err;
  EXPECT_FALSE(has(end.err, "restart 1 of 40")) << end.err;
}

}  // namespace
}  // namespace lockstep
