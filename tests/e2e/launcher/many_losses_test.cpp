// Tests that a launcher does not grow with the ranks that it loses.
#include <string>

#include "tests/e2e/launch.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// Rank 0 prints how many descriptors the launcher has open, before rank 1 and the processes in its place kill
// themselves and after it.
const std::string kLoseRankOne = R"(
touch $LOCKSTEP_SURVIVAL_FILE
if [ $RANK != 0 ]; then
  while [ ! -e begun ]; do sleep 0.02; done
  echo >> lost
  kill -9 $$
fi
while [ ! -e lost ]; do
  [ -e begun ] || { echo before=$(ls /proc/$PPID/fd | wc -l); touch begun; }
  sleep 0.02
done
while [ $(wc -l < lost) -le 12 ]; do sleep 0.02; done
echo after=$(ls /proc/$PPID/fd | wc -l)
)";

// Thirteen processes are started one after the other.
TEST(ManyLosses, LeaveNoDescriptorsOpen) {
  const TemporaryFolder folder;
  const ProgramEnd end = run({"--nproc-per-node=2", "--max-restarts=12", "--tee=3", "--log-dir=" + folder.path()},
                             shell("cd " + folder.path() + kLoseRankOne));
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  const auto count_after = [&](const std::string& name) { return pids_after(end.out, name); };
  ASSERT_EQ(count_after("before").size(), 1U) << end.out;
  ASSERT_EQ(count_after("after").size(), 1U) << end.out;
  constexpr int kOfTheLast = 4;  // a process that has ended, or has just been started
  EXPECT_LE(count_after("after")[0], count_after("before")[0] + kOfTheLast) << end.out;
}

}  // namespace
}  // namespace lockstep
