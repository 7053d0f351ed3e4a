// Tests that the others, when they save, wait for a rank that is paused for longer than its heartbeat.
#include <gtest/gtest.h>

#include <chrono>

#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/comm/factory.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/ranks.h"
#include "tests/support/ranks/paused_rank.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Seconds: a rank stands still for longer than the others wait before they look at it.
TEST(PausedRank, DoesNotEndASave) {
  const TemporaryFolder folder;
  RanksOptions options;
  options.heartbeat_timeout = milliseconds(2500);
  run_ranks_as_processes(
      2,
      [&](const Membership& membership) {
        CheckpointWriterOptions how;
        how.output_dir = folder / "out";
        how.background = false;
        PausedRank paused(membership);
        const std::shared_ptr<Communicator> group = make_communicator("shm", paused.membership());
        CheckpointWriter writer(how, group);
        paused.pause();
        EXPECT_NO_THROW(writer.save(sample_content(4, membership.rank, 2, true)));
      },
      options);
  EXPECT_EQ(steps_in(folder / "out"), std::vector<std::int64_t>{4});
}

}  // namespace
}  // namespace lockstep
