#include "lockstep/launch/rank_end.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "lockstep/launch/failure_report.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

RankEnd end_of(int rank, int code, int signal = 0, std::vector<std::string> lines = {}) {
  RankEnd end;
  end.rank = rank;
  end.status.code = code;
  end.status.signal = signal;
  end.last_lines = std::move(lines);
  return end;
}

RankEnd asked(RankEnd end) {
  end.was_asked = true;
  return end;
}

struct RankEndCase {
  const char* name;
  std::vector<RankEnd> ends;
  int want;  // -1: none
  friend std::ostream& operator<<(std::ostream& out, const RankEndCase& c) { return out << c.name; }
};
class FirstFailure : public ::testing::TestWithParam<RankEndCase> {};

TEST_P(FirstFailure, IsTheCause) {
  const RankEnd* first = first_failure(GetParam().ends);
  EXPECT_EQ(first != nullptr ? first->rank : -1, GetParam().want);
}

const std::vector<std::string> kVictim{"RuntimeError: [pair.cc:598] Connection closed by peer [127.0.0.1]:40113"};
INSTANTIATE_TEST_SUITE_P(
    Table, FirstFailure,
    ::testing::Values(
        RankEndCase{"nobody", {}, -1}, RankEndCase{"all_well", {end_of(0, 0), end_of(1, 0)}, -1},
        RankEndCase{"by_time", {end_of(2, 3), end_of(0, 1)}, 2},
        RankEndCase{"well_before", {end_of(0, 0), end_of(1, 1)}, 1},
        RankEndCase{"victim_ends_first", {end_of(0, 1, 0, kVictim), end_of(1, 1, 0, {"ValueError: x"})}, 1},
        RankEndCase{"only_victims", {end_of(3, 1, 0, kVictim), end_of(1, 1, 0, kVictim)}, 3},
        RankEndCase{"asked_ones_do_not_count", {end_of(0, 1, 0, kVictim), asked(end_of(1, 0, SIGTERM))}, 0},
        RankEndCase{"a_signal_is_a_cause", {end_of(0, 0, SIGKILL, kVictim), end_of(1, 1)}, 0},
        RankEndCase{"lockstep_names_who_left",
                    {end_of(0, 1, 0, {"rank 3 on host-a left the group before all_reduce #5"}), end_of(3, 1)},
                    3},
        RankEndCase{"lockstep_names_the_lost", {end_of(0, 1, 0, {"all_reduce lost rank 1"}), end_of(1, 9)}, 1}),
    [](const auto& test) { return test.param.name; });

TEST(ErrorFile, GivesItsMessage) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    std::ofstream(folder / "error.json") << text;
    return read_error_file(folder / "error.json");
  };
  EXPECT_EQ(read(R"({"message": {"message": "ValueError: bad", "extraInfo": {"timestamp": "1"}}})"), "ValueError: bad");
  EXPECT_EQ(read(R"({"message": "plain"})"), "plain");
  EXPECT_EQ(read(R"({"message": 7})"), "7");
  EXPECT_EQ(read(R"({"other": "x"})"), "");
  EXPECT_EQ(read("{\"message\": "), "");
  EXPECT_EQ(read("[1]"), "");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read_error_file(folder / "missing"), "");
}

TEST(FailureReport, TellsWhoHowAndWhatToTry) {
  RankEnd killed = end_of(1, 0, SIGKILL, {"loading", "allocating"});
  killed.local_rank = 1;
  killed.pid = 77;
  killed.message = "out of memory";
  const Error error =
      failure_report({killed, asked(end_of(0, 0, SIGTERM)), end_of(2, 0), end_of(3, 4)}, "", 2, "/logs", true);
  const std::string text = error.what();
  for (const char* part :
       {"rank 1 (local rank 1, pid 77)", "failed first: killed by SIGKILL (Killed)", "its message: out of memory",
        "| loading\n    | allocating", "rank 0: was ended by the launcher", "rank 2: had ended well",
        "rank 3: failed too, exit code 4", "after 2 restarts", "/logs", "for want of memory"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in:\n" << text;
  }
}

TEST(FailureReport, PassesOnTheStoryOfAnotherNode) {
  const Error error = failure_report({end_of(0, 1, 0, kVictim)}, "rank 3 on host-b failed first", 0, "", false);
  EXPECT_EQ(error.happened().find("rank 3 on host-b failed first"), 0U) << error.what();
}

struct Advice {
  const char* name;
  ExitStatus status;
  const char* describes;
  const char* advises;
  friend std::ostream& operator<<(std::ostream& out, const Advice& c) { return out << c.name; }
};
class AdviceFor : public ::testing::TestWithParam<Advice> {};

TEST_P(AdviceFor, FitsTheEnd) {
  EXPECT_EQ(GetParam().status.describe(), GetParam().describes);
  const std::string advice = advice_for(GetParam().status, false);
  EXPECT_NE(advice.find(GetParam().advises), std::string::npos) << advice;
}

INSTANTIATE_TEST_SUITE_P(
    Table, AdviceFor,
    ::testing::Values(Advice{"segv", {0, SIGSEGV, true}, "killed by SIGSEGV (Segmentation fault), core dumped", "gdb"},
                      Advice{"kill", {0, SIGKILL, false}, "killed by SIGKILL (Killed)", "dmesg"},
                      Advice{"abort", {0, SIGABRT, false}, "killed by SIGABRT (Aborted)", "last lines"},
                      Advice{"not_found", {127, 0, false}, "exit code 127", "did not find"},
                      Advice{"child_was_killed", {137, 0, false}, "exit code 137", "SIGKILL"},
                      Advice{"plain", {1, 0, false}, "exit code 1", "--log-dir"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
