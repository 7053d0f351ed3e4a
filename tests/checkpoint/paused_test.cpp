// A rank that is paused for longer than its heartbeat is waited for while the others save.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/comm/factory.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

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
        std::thread waker;
        const std::shared_ptr<Communicator> group = make_communicator("shm", membership);
        CheckpointWriter writer(how, group);
        if (membership.rank == 1) ::raise(SIGSTOP);
        if (membership.rank == 0) {
          const Deadline end = Deadline::after(std::chrono::seconds(30));
          while (membership.store->lost_ranks().empty() && !end.passed()) {
            std::this_thread::sleep_for(milliseconds(10));
          }
          EXPECT_FALSE(membership.store->lost_ranks().empty());
          waker = std::thread([&] {
            std::this_thread::sleep_for(milliseconds(800));  // longer than between two looks of who waits
            ::kill(membership.peers[1].pid, SIGCONT);
          });
        }
        EXPECT_NO_THROW(writer.save(sample_content(4, membership.rank, 2, true)));
        if (waker.joinable()) waker.join();
      },
      options);
  EXPECT_EQ(steps_in(folder / "out"), std::vector<std::int64_t>{4});
}

}  // namespace
}  // namespace lockstep
