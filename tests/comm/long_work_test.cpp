// A rank that works alone, or is only slow: the others wait for it while it lives, and their logs report it.
#include "lockstep/net/long_work.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/comm/contract.h"
#include "tests/comm/meeting.h"
#include "tests/comm/waiting_placements.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<Placement> in_processes_only() {
  std::vector<Placement> found;
  for (const Placement& placement : placements_for_failures()) {
    if (placement.processes) found.push_back(placement);
  }
  return found;
}

std::string text_in(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class WaitingForOne : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, WaitingForOne, ::testing::ValuesIn(placements_for_timeouts()), placement_name);

// Not less than a second: the others give up if none of the worker's reports, of which each timeout has eight, reaches
// them for so long, and a busy machine may let a process wait.
constexpr milliseconds kShorterThanTheWork{1000};

// Works longer than the timeout of the others, who begin to wait now.
void work_for_long(Communicator& group) {
  const LongWork work(group.membership(), "sleeping");
  meet_in_store(group, "one works");
  std::this_thread::sleep_for(kShorterThanTheWork * 5 / 4);  // the test is about being late
}

TEST_P(WaitingForOne, ThatWorksLongerThanTheTimeout) {
  RanksOptions options;
  options.timeout = kShorterThanTheWork;
  each_rank(
      [](Communicator& group) {
        if (group.rank() == 0) {
          work_for_long(group);
        } else {
          meet_in_store(group, "one works");
        }
        at::Tensor tensor = ones(1000);
        group.all_reduce(tensor);
        EXPECT_TRUE(tensor.eq(group.world_size()).all().item<bool>());
      },
      options);
}

// If cores are free, these engines run all operations in a thread, whose waits are those tested above.
class StartedAndWaitingForOne : public Contract {
 protected:
  static void SetUpTestSuite() { ::setenv("LOCKSTEP_COMMUNICATION_THREAD", "0", 1); }
  static void TearDownTestSuite() { ::unsetenv("LOCKSTEP_COMMUNICATION_THREAD"); }
};
std::vector<Placement> four_that_share_memory() {
  std::vector<Placement> found;
  for (const Placement& placement : placements({4})) {
    if (placement.engine == "shm" || placement.engine == "thread") found.push_back(placement);
  }
  return found;
}
INSTANTIATE_TEST_SUITE_P(Engines, StartedAndWaitingForOne, ::testing::ValuesIn(four_that_share_memory()),
                         placement_name);

// One rank waits for the operation, one is in a later barrier, one polls whether the operation is over.
TEST_P(StartedAndWaitingForOne, ThatWorksLongerThanTheTimeout) {
  RanksOptions options;
  options.timeout = kShorterThanTheWork;
  each_rank(
      [](Communicator& group) {
        meet_in_store(group, "in the group");
        const at::Tensor tensor = group.allocate({5000}, at::kFloat).fill_(group.rank());
        group.barrier();
        if (group.rank() == 3) {
          work_for_long(group);
        } else {
          meet_in_store(group, "one works");
        }
        const auto started = group.all_reduce_async(tensor);
        if (group.rank() == 1) started->wait();
        while (group.rank() == 2 && !started->is_completed()) std::this_thread::yield();
        group.barrier();
        started->wait();
        EXPECT_TRUE(tensor.eq(0 + 1 + 2 + 3).all().item<bool>());
      },
      options);
}

class WaitingForAProcess : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, WaitingForAProcess, ::testing::ValuesIn(in_processes_only()), placement_name);

TEST_P(WaitingForAProcess, EndsWhenItIsStoppedInItsWork) {
  RanksOptions options;
  options.timeout = milliseconds(1000);
  const auto ends = ends_of(
      [](Communicator& group) {
        meet_in_store(group, "before the barrier");
        group.barrier();
        if (group.rank() == 0) {
          const LongWork work(group.membership(), "standing still");
          ::raise(SIGSTOP);
        }
        group.barrier();
      },
      options);
  for (std::size_t rank = 1; rank < ends.size(); ++rank) {
    EXPECT_TRUE(ends[rank].timed_out) << ends[rank].text;
    for (const char* knob : {"LOCKSTEP_TIMEOUT_S", "lockstep run --timeout", "ProcessGroupOptions::timeout"}) {
      EXPECT_NE(ends[rank].text.find(knob), std::string::npos) << ends[rank].text;
    }
  }
}

TEST_P(WaitingForAProcess, SaysSoInItsLog) {
  const TemporaryFolder folder;
  RanksOptions options;
  options.timeout = seconds(2);  // the log says so after half of it, and the other half is for the late rank
  options.prepare = [&](int rank) {
    const int log = ::open((folder / std::to_string(rank)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ::dup2(log, STDERR_FILENO);
  };
  each_rank(
      [&](Communicator& group) {
        meet_in_store(group, "before the barrier");
        group.barrier();
        const int late = group.world_size() - 1;
        if (group.rank() == late) {
          const Deadline end = Deadline::after(seconds(60));
          while (!end.passed() && text_in(folder / "0").find("still waiting") == std::string::npos) {
            std::this_thread::sleep_for(milliseconds(10));  // a file sends no signal
          }
        }
        at::Tensor tensor = ones(1000);
        group.all_reduce(tensor);
      },
      options);
  const std::string log = text_in(folder / "0");
  EXPECT_NE(log.find("still waiting"), std::string::npos) << log;
  EXPECT_NE(log.find("rank " + std::to_string(GetParam().world_size - 1) + " on "), std::string::npos) << log;
  EXPECT_NE(log.find("all_reduce #1"), std::string::npos) << log;
}

}  // namespace
}  // namespace lockstep
