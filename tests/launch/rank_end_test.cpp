#include "lockstep/launch/ranks/rank_end.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/launch/rank_ends.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

struct RankEndCase {
  const char* name;
  std::vector<RankEnd> ends;
  int want;  // -1: no rank
  friend std::ostream& operator<<(std::ostream& out, const RankEndCase& c) { return out << c.name; }
};
class FirstFailure : public ::testing::TestWithParam<RankEndCase> {};

TEST_P(FirstFailure, IsTheCause) {
  const RankEnd* first = first_failure(GetParam().ends);
  EXPECT_EQ(first != nullptr ? first->rank : -1, GetParam().want);
}

using Kind = FailureCause::Kind;
INSTANTIATE_TEST_SUITE_P(
    Table, FirstFailure,
    ::testing::Values(
        RankEndCase{"nobody", {}, -1}, RankEndCase{"all_well", {end_of(0, 0), end_of(1, 0)}, -1},
        RankEndCase{"by_time", {end_of(2, 3), end_of(0, 1)}, 2},
        RankEndCase{"well_before", {end_of(0, 0), end_of(1, 1)}, 1},
        RankEndCase{"victim_ends_first", {end_of(0, 1, 0, kVictim), end_of(1, 1, 0, {"ValueError: x"})}, 1},
        RankEndCase{"only_victims", {end_of(3, 1, 0, kVictim), end_of(1, 1, 0, kVictim)}, 3},
        RankEndCase{"asked_ones_do_not_count", {end_of(0, 1, 0, kVictim), asked(end_of(1, 0, SIGTERM))}, 0},
        RankEndCase{"what_was_survived_is_no_cause", {survived(end_of(2, 0, SIGKILL)), end_of(0, 1)}, 0},
        RankEndCase{"unless_the_last_ones_died_of_it",
                    {survived(end_of(2, 0, SIGKILL)), with_file(end_of(0, 1), Kind::LostPeer, 2)},
                    2},
        RankEndCase{"a_signal_is_a_cause", {end_of(0, 0, SIGKILL, kVictim), end_of(1, 1)}, 0},
        RankEndCase{
            "the_file_says_who_left", {with_file(end_of(0, 1, 0, {"giving up"}), Kind::PeerLeft, 3), end_of(3, 1)}, 3},
        RankEndCase{"what_nobody_caught_is_no_cause_by_itself", {aborted(0, kVictim), aborted(1, {"what():  x"})}, 1},
        RankEndCase{
            "words_of_lockstep_are_no_cause",
            {end_of(0, 1, 0, {"batch 7 lost rank 1 in the sort, which left the group of the best"}), end_of(1, 1)},
            0},
        RankEndCase{"the_file_is_believed_before_the_text",
                    {with_file(end_of(0, 1, 0, kVictim), Kind::Own), with_file(end_of(1, 1), Kind::LostPeer, 0)},
                    0},
        RankEndCase{"the_file_says_who_is_a_victim",
                    {with_file(aborted(0, {"x"}), Kind::AbortedByPeer, 1), with_file(end_of(1, 1), Kind::Own)},
                    1},
        RankEndCase{
            "own_before_timeout", {with_file(end_of(2, 1), Kind::Timeout, 0), with_file(end_of(0, 1), Kind::Own)}, 0},
        RankEndCase{"timeout_before_victim",
                    {with_file(end_of(2, 1), Kind::LostPeer, 1), with_file(end_of(1, 1), Kind::Timeout, 0)},
                    1},
        RankEndCase{"blame_is_followed",
                    {with_file(end_of(3, 1), Kind::LostPeer, 2), end_of(0, 1, 0, kVictim),
                     with_file(end_of(2, 1), Kind::LostPeer, 1), with_file(end_of(1, 1), Kind::AbortedByPeer, 7)},
                    1},
        RankEndCase{"blame_in_a_circle",
                    {with_file(end_of(0, 1), Kind::LostPeer, 1), with_file(end_of(1, 1), Kind::LostPeer, 0)},
                    0},
        RankEndCase{"blame_in_a_circle_of_two_of_three",
                    {with_file(end_of(0, 1), Kind::LostPeer, 1), with_file(end_of(1, 1), Kind::LostPeer, 0),
                     with_file(end_of(2, 1), Kind::LostPeer, 0)},
                    0},
        RankEndCase{"blame_that_leads_into_a_circle",
                    {with_file(end_of(5, 1), Kind::LostPeer, 1), with_file(end_of(2, 1), Kind::LostPeer, 1),
                     with_file(end_of(1, 1), Kind::LostPeer, 2)},
                    2},
        RankEndCase{"a_rank_that_blames_itself",
                    {with_file(end_of(1, 1), Kind::LostPeer, 0), with_file(end_of(0, 1), Kind::LostPeer, 0)},
                    0},
        RankEndCase{
            "a_consequence_stays_one_when_it_is_ended",
            {with_file(end_of(1, 1), Kind::PeerLeft, 0), asked(with_file(end_of(2, 0, SIGTERM), Kind::PeerLeft, 0))},
            1},
        RankEndCase{
            "who_had_said_so_before_it_was_ended",
            {with_file(end_of(0, 1), Kind::AbortedByPeer, 1), asked(with_file(end_of(1, 0, SIGTERM), Kind::Own))},
            1},
        RankEndCase{"who_got_the_signal_upon_which_all_stopped",
                    {with_file(end_of(0, 143), Kind::Stopped), with_file(end_of(1, 143), Kind::Stopped, 1)},
                    1},
        RankEndCase{"a_failure_before_a_stop", {with_file(end_of(0, 143), Kind::Stopped, 0), end_of(1, 1)}, 1},
        RankEndCase{"the_peer_ended_well", {end_of(1, 0), with_file(end_of(0, 1), Kind::LostPeer, 1)}, 0}),
    [](const auto& test) { return test.param.name; });

struct Stopped {
  const char* name;
  std::vector<RankEnd> ends;
  int want;  // -1: no rank
  friend std::ostream& operator<<(std::ostream& out, const Stopped& c) { return out << c.name; }
};
class FirstStop : public ::testing::TestWithParam<Stopped> {};

TEST_P(FirstStop, IsThereIfNothingElseEndedARank) {
  const RankEnd* first = first_stop(GetParam().ends);
  EXPECT_EQ(first != nullptr ? first->rank : -1, GetParam().want);
}

RankEnd warned(RankEnd end) {
  end.warned_by = SIGUSR1;
  return end;
}

RankEnd stopped(int rank, int code = 143, int signal = 0) {
  return with_file(end_of(rank, code, signal), Kind::Stopped);
}

INSTANTIATE_TEST_SUITE_P(
    Table, FirstStop,
    ::testing::Values(Stopped{"all_well", {end_of(0, 0)}, -1}, Stopped{"by_sigterm", {end_of(0, 0), stopped(1)}, 1},
                      Stopped{"by_ctrl_c", {stopped(2, 130), stopped(1, 130)}, 2},
                      Stopped{"the_one_that_got_it", {stopped(0), with_file(end_of(1, 143), Kind::Stopped, 1)}, 1},
                      Stopped{"without_a_record", {end_of(0, 143)}, -1},
                      Stopped{"another_code_is_a_failure", {stopped(0, 1)}, -1},
                      Stopped{"a_crash_afterwards_is_a_failure", {stopped(0, 0, SIGSEGV)}, -1},
                      Stopped{"another_failed", {stopped(0), end_of(1, 1)}, -1},
                      Stopped{"another_was_survived", {survived(end_of(1, 0, SIGKILL)), stopped(0)}, 0},
                      Stopped{"any_program_that_was_warned", {warned(end_of(0, 143)), warned(end_of(1, 143))}, 0},
                      Stopped{"by_the_code_of_the_warning", {warned(end_of(1, 128 + SIGUSR1))}, 1},
                      Stopped{"a_failure_after_a_warning", {warned(end_of(0, 143)), warned(end_of(1, 1))}, -1},
                      Stopped{"death_of_a_warning", {warned(end_of(0, 0, SIGUSR1))}, -1},
                      Stopped{"a_recorded_failure_after_a_warning", {warned(with_file(end_of(0, 143), Kind::Own))}, -1},
                      Stopped{"the_launcher_asked_too", {asked(stopped(1, 0, SIGTERM)), asked(stopped(0))}, 1}),
    [](const auto& test) { return test.param.name; });

TEST(ErrorFile, GivesItsMessage) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    std::ofstream(folder / "error.json") << text;
    return read_error_file(folder / "error.json", 4711).message;
  };
  EXPECT_EQ(read(R"({"message": {"message": "ValueError: bad", "extraInfo": {"timestamp": "1"}}})"), "ValueError: bad");
  EXPECT_EQ(read(R"({"message": "plain"})"), "plain");
  EXPECT_EQ(read(R"({"message": 7})"), "7");
  EXPECT_EQ(read(R"({"other": "x"})"), "");
  EXPECT_EQ(read("{\"message\": "), "");
  EXPECT_EQ(read("[1]"), "");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read_error_file(folder / "missing", 4711).message, "");
}

// A rank that has survived a failure removes its record, and its last lines may still show the failure.
TEST(ErrorFile, ShowsWhetherTheRankKnowsIt) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_error_file(folder / "error.json", 4711).is_known);
  std::ofstream(folder / "error.json.known");
  EXPECT_TRUE(read_error_file(folder / "error.json", 4711).is_known);
  std::ofstream(folder / "error.json") << R"({"message": "plain"})";
  EXPECT_TRUE(read_error_file(folder / "error.json", 4711).is_known);
}

// A program that the rank has started has the same variable.
TEST(ErrorFile, CountsOnlyTheRanksOwnRefusals) {
  const TemporaryFolder folder;
  std::ofstream(folder / "error.json") << R"({"message": "x", "lockstep": {"cause": "usage", "pid": 4711}})";
  const ErrorFile own = read_error_file(folder / "error.json", 4711);
  EXPECT_EQ(own.message, "x");
  EXPECT_EQ(own.cause, (FailureCause{Kind::Usage, -1}));
  const ErrorFile of_another = read_error_file(folder / "error.json", 4712);
  EXPECT_EQ(of_another.message, "");
  EXPECT_EQ(of_another.cause, std::nullopt);
}

TEST(ErrorFile, GivesTheCause) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& ours) {
    std::ofstream(folder / "error.json") << R"({"message": "x", "lockstep": )" << ours << "}";
    return read_error_file(folder / "error.json", 4711).cause;
  };
  EXPECT_EQ(read(R"({"rank": 1, "cause": "lost_peer", "blames": 3})"), (FailureCause{Kind::LostPeer, 3}));
  EXPECT_EQ(read(R"({"rank": 1, "cause": "own"})"), (FailureCause{Kind::Own, -1}));
  EXPECT_EQ(read(R"({"cause": "disagreement", "blames": "x"})"), (FailureCause{Kind::Disagreement, -1}));
  for (const char* none : {R"({"rank": 1})", R"({"cause": "of another version"})", R"({"cause": 3})", "[]", "7"}) {
    EXPECT_EQ(read(none), std::nullopt) << none;
  }
}

}  // namespace
}  // namespace lockstep
