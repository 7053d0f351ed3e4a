// Ranks that stay for the bodies of many tests: what one body leaves behind does not reach the next one.
#include "tests/support/ranks/standing_ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/store.h"
#include "tests/support/running_program.h"

namespace lockstep {
namespace {

constexpr int kStanding = 3;

// Where the ranks leave their process ids: mapped before they are forked, and shared with them.
using Pids = std::array<pid_t, kStanding>;
Pids& shared_pids() {
  static Pids* const shared =
      static_cast<Pids*>(::mmap(nullptr, sizeof(Pids), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *shared;
}

class StandingRanksTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_pids();
    ::setenv("LOCKSTEP_OF_A_TEST", "1", 1);  // ranks of this suite, forked after the mapping
  }
  static void TearDownTestSuite() { ::unsetenv("LOCKSTEP_OF_A_TEST"); }

  static Pids pids_now() {
    run_standing_ranks(kStanding, [](const Membership& membership) {
      shared_pids()[static_cast<std::size_t>(membership.rank)] = ::getpid();
    });
    return shared_pids();
  }
};

TEST_F(StandingRanksTest, AreTheSameProcessesForEveryBody) {
  const Pids first = pids_now();
  EXPECT_EQ(pids_now(), first);
  for (const pid_t pid : first) EXPECT_NE(pid, ::getpid());
}

TEST_F(StandingRanksTest, HaveKeysOfTheirOwnInEveryBody) {
  for (int run = 0; run < 3; ++run) {
    run_standing_ranks(kStanding, [](const Membership& membership) {
      EXPECT_LE(membership.store->add("came", 1), kStanding);
      EXPECT_EQ(membership.timeout, RanksOptions().timeout);
    });
  }
}

TEST_F(StandingRanksTest, CopyTheValuesThatABodyCaptures) {
  for (const int value : {3, 4}) {
    RanksOptions options;
    options.timeout = std::chrono::milliseconds(1000 * value);
    run_standing_ranks(
        kStanding,
        [value](const Membership& membership) { EXPECT_EQ(membership.timeout, std::chrono::seconds(value)); }, options);
  }
}

TEST_F(StandingRanksTest, WhatIsPendingDoesNotReachTheNextGroup) {
  for (const double sent : {1.0, 2.0}) {
    run_standing_ranks(kStanding, [sent](const Membership& membership) {
      const auto group = make_communicator("tcp", membership);
      const at::Tensor got = at::zeros({10});
      if (group->rank() == 0) {
        try {
          group->send(at::full({10}, sent), 1);
          (void)group->isend(at::full({10}, -1.0), 1);  // nobody receives it
        } catch (const Error&) {
          // Rank 1 has received, and ended the group before this rank knew.
        }
      }
      if (group->rank() == 1) {
        group->recv(got, 0);
        EXPECT_TRUE(got.eq(sent).all().item<bool>());
        (void)group->irecv(got, 2);  // nobody sends it
      }
    });
  }
}

TEST_F(StandingRanksTest, AreReplacedOnceOneHasFailed) {
  const Pids first = pids_now();
  const auto thrown = standing_ranks(kStanding, [](const Membership& membership) {
    if (membership.rank == 1) throw std::runtime_error("the second rank is broken");
  });
  EXPECT_FALSE(thrown[0].failed) << thrown[0].text;
  EXPECT_TRUE(thrown[1].failed);
  EXPECT_EQ(thrown[1].text, "the second rank is broken");
  for (const pid_t pid : first) EXPECT_TRUE(wait_until_gone(pid, Deadline::after(std::chrono::seconds(20))));

  const Pids second = pids_now();
  EXPECT_NE(second, first);
  const auto killed = standing_ranks(kStanding, [](const Membership& membership) {
    if (membership.rank == 2) ::raise(SIGKILL);
  });
  EXPECT_EQ(killed[2].signal, SIGKILL);
  EXPECT_TRUE(killed[2].failed);
  EXPECT_FALSE(killed[0].failed) << killed[0].text;
  EXPECT_NE(pids_now(), second);
}

TEST_F(StandingRanksTest, ReportWhichExpectationFailed) {
  const auto ends = standing_ranks(kStanding, [](const Membership& membership) {
    EXPECT_NE(membership.rank, 1) << "it is rank one";  // fails there, in the rank's copy of this test
  });
  EXPECT_FALSE(ends[0].failed) << ends[0].text;
  EXPECT_NE(ends[1].text.find("it is rank one"), std::string::npos) << ends[1].text;
}

TEST_F(StandingRanksTest, DoNotStayBeyondTheDeadline) {
  RanksOptions options;
  options.deadline = std::chrono::milliseconds(300);
  const auto ends = standing_ranks(
      kStanding,
      [](const Membership& membership) {
        while (membership.rank == 1) ::pause();
      },
      options);
  EXPECT_FALSE(ends[0].failed) << ends[0].text;
  EXPECT_NE(ends[1].text.find("did not end by the test's deadline"), std::string::npos) << ends[1].text;
}

TEST_F(StandingRanksTest, AreReplacedOnceAVariableHasChanged) {
  const Pids first = pids_now();
  ::setenv("LOCKSTEP_OF_A_TEST", "2", 1);
  EXPECT_NE(pids_now(), first);
  ::setenv("LOCKSTEP_OF_A_TEST", "1", 1);
  run_standing_ranks(kStanding, [](const Membership&) { EXPECT_STREQ(::getenv("LOCKSTEP_OF_A_TEST"), "1"); });
}

}  // namespace
}  // namespace lockstep
