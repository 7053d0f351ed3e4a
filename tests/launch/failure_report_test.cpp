#include "lockstep/launch/ranks/failure_report.h"

#include <gtest/gtest.h>

#include "lockstep/launch/ranks/last_words.h"
#include "tests/launch/rank_ends.h"

namespace lockstep {
namespace {

using Kind = FailureCause::Kind;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(FailureReport, HasTheMessageOfAnErrorOfLibTorch) {
  std::string stderr_text = "[W1122 10:00:00.123456789 Context.cpp:70] Warning: something is slow\n";
  stderr_text += "terminate called after throwing an instance of 'c10::Error'\n";
  stderr_text += "  what():  mat1 and mat2 shapes cannot be multiplied (3x5 and 4x8)\n";
  stderr_text +=
      "Exception raised from meta at ../aten/src/ATen/native/LinearAlgebra.cpp:193 (most recent call first):\n";
  for (int i = 0; i < 60; ++i) {
    stderr_text +=
        "frame #" + std::to_string(i) + ": at::meta::structured_addmm::meta(" + std::string(600, 'x') + ")\n";
  }
  TextTail tail;
  tail.feed(stderr_text);
  const std::string text = describe_failure(end_of(1, 0, SIGABRT, last_words(tail, 20)));
  EXPECT_TRUE(has(text, "| terminate called")) << text;
  EXPECT_TRUE(has(text, "what():  mat1 and mat2 shapes cannot be multiplied (3x5 and 4x8)")) << text;
  EXPECT_TRUE(has(text, "60 lines \"frame #\"")) << text;
  EXPECT_FALSE(has(text, "structured_addmm")) << text;
  EXPECT_FALSE(has(text, "is slow")) << text;
}

TEST(FailureReport, TellsWhoSaidThatItFailedBeforeItWasEnded) {
  RankEnd cause = asked(with_file(end_of(0, 0, SIGTERM), Kind::Own));
  RankEnd victim = with_file(end_of(1, 1), Kind::AbortedByPeer, 0);
  const Error error = failure_report({victim, cause}, "", 0, "", false);
  EXPECT_TRUE(has(error.what(), "rank 0 (local rank 0, ")) << error.what();
  EXPECT_TRUE(has(error.what(), "failed first: it had reported a failure, and was then ended by the launcher"))
      << error.what();
  EXPECT_TRUE(has(error.what(), "rank 1: failed too, exit code 1, since rank 0 had failed")) << error.what();
}

// A rank may fail by itself in the moment in which the launcher asks it to end.
TEST(FailureReport, DistinguishesRanksThatFailedFromRanksThatTheLauncherEnded) {
  const std::vector<std::pair<RankEnd, std::string>> others = {
      {asked(end_of(1, 0, SIGTERM)), "rank 1: was ended by the launcher"},
      {asked(end_of(2, 0, SIGKILL)), "rank 2: was ended by the launcher"},
      {asked(with_file(end_of(3, 1), Kind::LostPeer, 0)), "rank 3: failed too, exit code 1, since rank 0 had failed"},
      {asked(with_file(aborted(4, {}), Kind::Own)), "rank 4: failed too, killed by SIGABRT (Aborted)"},
      {asked(aborted(5, {})), "rank 5: failed too, killed by SIGABRT (Aborted)"},
      {asked(with_file(end_of(6, 0, SIGTERM), Kind::PeerLeft, 0)),
       "rank 6: had failed too, since rank 0 had failed, and was then ended by the launcher"},
      {asked(end_of(7, 143)), "rank 7: ended when the launcher asked it to, exit code 143"},
      {end_of(8, 4), "rank 8: failed too, exit code 4"}};
  std::vector<RankEnd> ends{end_of(0, 3)};
  for (const auto& [end, text] : others) ends.push_back(end);
  const Error error = failure_report(ends, "", 0, "", false);
  for (const auto& [end, text] : others) EXPECT_TRUE(has(error.what(), text + "\n")) << text << "\n" << error.what();
}

// All ranks are started with the same words, so one wrong flag is one message.
TEST(FailureReport, ShowsWhatRanksRefuseOnce) {
  const auto refusal = [](int rank) {
    RankEnd end =
        with_file(end_of(rank, 2, 0, {"lockstep train: error: unknown flag '--x'", "  fix: --help"}), Kind::Usage);
    end.error.message = "unknown flag '--x'\n  fix: --help";
    return end;
  };
  RankEnd other = refusal(3);
  other.error.message = "its environment is another one";
  const std::string text = failure_report({refusal(1), refusal(0), asked(refusal(2)), other}, "", 0, "", false).what();
  EXPECT_TRUE(
      has(text, "its message:\n    | unknown flag '--x'\n    |   fix: --help\n  so did 2 more ranks\n  rank 3: "))
      << text;
  EXPECT_FALSE(has(text, "last lines")) << text;
  EXPECT_TRUE(has(text, "fix: correct what its message names")) << text;
  // A process that was to join need not have printed why it did not.
  EXPECT_EQ(
      describe_end(refusal(1)),
      "exit code 2. It refused what it was started with, and would refuse it again\n  its message:\n    | unknown "
      "flag '--x'\n    |   fix: --help");
  EXPECT_EQ(describe_end(end_of(0, 3, 0, {"a line"})), "exit code 3");
}

// It writes no lines on standard error that matter, and nothing has to be fixed.
TEST(FailureReport, TellsWhoWasAskedToEnd) {
  RankEnd first = with_file(end_of(0, 143, 0, {"a warning of an hour ago"}), Kind::Stopped);
  RankEnd asked_one = with_file(end_of(1, 143), Kind::Stopped, 1);
  const Error error = failure_report({first, asked_one}, "", 0, "", false);
  EXPECT_TRUE(has(error.what(), "rank 1 (local rank 0, pid -1)")) << error.what();
  EXPECT_TRUE(has(error.what(), "was asked to end by a signal, and stopped in order: exit code 143")) << error.what();
  EXPECT_TRUE(has(error.what(), "its message: its message")) << error.what();
  EXPECT_TRUE(has(error.what(), "rank 0: stopped in order, exit code 143")) << error.what();
  EXPECT_TRUE(has(error.what(), "nothing has failed")) << error.what();
  const std::string other = describe_failure(first);
  EXPECT_TRUE(has(other, "stopped in order, because a signal asked another rank to end: exit code 143")) << other;
  for (const char* word : {"failed first", "gdb", "an hour ago"}) EXPECT_FALSE(has(other + error.what(), word)) << word;
}

// The report must contain what the advice names.
TEST(FailureReport, NamesTheMessageOnlyIfItShowsOne) {
  const std::string by_message = "its message gives the reason";
  for (const char* empty : {"", "\n\n", " \n\t\n"}) {
    RankEnd end = aborted(0, {});
    end.error.message = empty;
    const Error silent = failure_report({end}, "", 0, "", false);
    EXPECT_FALSE(has(silent.what(), by_message)) << silent.what();
    EXPECT_FALSE(has(silent.what(), "its message:")) << silent.what();
    EXPECT_TRUE(has(silent.what(), "wrote nothing to standard error")) << silent.what();
    end.last_lines = {"the reason"};
    const Error with_lines = failure_report({end}, "", 0, "", false);
    EXPECT_FALSE(has(with_lines.what(), by_message)) << with_lines.what();
    EXPECT_TRUE(has(with_lines.what(), "its last lines give the reason")) << with_lines.what();
  }
  for (const int code : {1, 127, 137}) {
    const Error silent = failure_report({end_of(0, code)}, "", 0, "", false);
    EXPECT_TRUE(has(silent.what(), "wrote nothing to standard error")) << silent.what();
    EXPECT_FALSE(has(silent.what(), "last lines")) << silent.what();
  }
  for (RankEnd end : {aborted(0, {}), end_of(0, 1)}) {
    end.error.message = "out of luck";
    const Error told = failure_report({end}, "", 0, "", false);
    EXPECT_TRUE(has(told.what(), "its message: out of luck")) << told.what();
    EXPECT_TRUE(has(told.what(), by_message)) << told.what();
  }
}

TEST(FailureReport, LeavesOutTheMessageOnlyIfAllOfItStandsInTheLastLines) {
  RankEnd end = aborted(0, {"  what():  first part"});
  end.error.message = "first part\nsecond part";
  EXPECT_TRUE(has(describe_failure(end), "| second part")) << describe_failure(end);
  end.last_lines.push_back("second part");
  EXPECT_FALSE(has(describe_failure(end), "its message")) << describe_failure(end);
}

TEST(FailureReport, WritesNoControlCharacters) {
  RankEnd end = end_of(0, 1, 0, {"a\x1b]0;title\x07"});
  end.error.message = "b\x1b[31m";
  const std::string text = describe_failure(end);
  EXPECT_TRUE(has(text, "| a\\x1b]0;title\\x07")) << text;
  EXPECT_TRUE(has(text, "its message: b\\x1b[31m")) << text;
}

TEST(LastWords, KeepTheMessageOfWhatNobodyCaught) {
  TextTail tail;
  for (int i = 0; i < 30; ++i) tail.feed("before " + std::to_string(i) + "\n");
  tail.feed("terminate called after throwing an instance of 'x'\n  what():  the reason\n");
  for (int i = 0; i < 100; ++i) tail.feed("after " + std::to_string(i) + "\n");
  const auto words = last_words(tail, 20);
  ASSERT_EQ(words.size(), 20U);
  EXPECT_EQ(words[0], "terminate called after throwing an instance of 'x'");
  EXPECT_EQ(words[1], "  what():  the reason");
  EXPECT_EQ(words[9], "after 7");
  EXPECT_EQ(words[10], "(83 lines are left out)");
  EXPECT_EQ(words[11], "after 91");
  EXPECT_EQ(words.back(), "after 99");
}

TEST(LastWords, AreTheNoiseWhereThereIsNothingElse) {
  TextTail tail;
  tail.feed("[W Context.cpp:70] Warning: x (function operator())\nI1122 10:00:00.1 77 file.cc:5] note\n");
  EXPECT_EQ(last_words(tail, 20).size(), 2U);
  tail.feed("E1122 10:00:00.1 77 file.cc:6] the reason\n[rank0]:[W1122 10:00:00.2 Context.cpp:71] x\nWait for it] x\n");
  EXPECT_EQ(last_words(tail, 20),
            (std::vector<std::string>{"E1122 10:00:00.1 77 file.cc:6] the reason", "Wait for it] x"}));
}

TEST(FailureReport, TellsWhoHowAndWhatToTry) {
  RankEnd killed = end_of(1, 0, SIGKILL, {"loading", "allocating"});
  killed.local_rank = 1;
  killed.pid = 77;
  killed.error.message = "out of memory";
  const Error error =
      failure_report({killed, asked(end_of(0, 0, SIGTERM)), end_of(2, 0), end_of(3, 4)}, "", 2, "/logs", true);
  const std::string text = error.what();
  for (const char* part :
       {"rank 1 (local rank 1, pid 77)", "failed first: killed by SIGKILL (Killed)", "its message: out of memory",
        "| loading\n    | allocating", "rank 0: was ended by the launcher", "rank 2: had ended well",
        "rank 3: failed too, exit code 4", "after 2 restarts", "/logs", "because memory ran out"}) {
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
  const std::string advice = advice_for(GetParam().status, false, true);
  EXPECT_NE(advice.find(GetParam().advises), std::string::npos) << advice;
  EXPECT_EQ(advice.find("wrote nothing"), std::string::npos) << advice;
}

// As a rank whose standard error goes to a file on a full disk.
TEST_P(AdviceFor, PointsToNoLinesWhereThereAreNone) {
  const std::string advice = advice_for(GetParam().status, false, false);
  EXPECT_EQ(advice.find("last lines"), std::string::npos) << advice;
  const bool pointed = advice_for(GetParam().status, false, true).find("last lines") != std::string::npos;
  EXPECT_EQ(advice.find("wrote nothing to standard error") != std::string::npos, pointed) << advice;
  EXPECT_EQ(advice.find("disk is full") != std::string::npos, pointed) << advice;
}

INSTANTIATE_TEST_SUITE_P(
    Table, AdviceFor,
    ::testing::Values(Advice{"segv", {0, SIGSEGV, true}, "killed by SIGSEGV (Segmentation fault), core dumped", "gdb"},
                      Advice{"kill", {0, SIGKILL, false}, "killed by SIGKILL (Killed)", "dmesg"},
                      Advice{"abort", {0, SIGABRT, false}, "killed by SIGABRT (Aborted)", "last lines"},
                      Advice{"not_found", {127, 0, false}, "exit code 127", "did not find"},
                      Advice{"not_executable", {126, 0, false}, "exit code 126", "permissions"},
                      Advice{"timer", {0, SIGALRM, false}, "killed by SIGALRM (Alarm clock)", "last lines"},
                      Advice{"asked_to_end", {143, 0, false}, "exit code 143", "was asked to end by SIGTERM"},
                      Advice{"child_was_killed", {137, 0, false}, "exit code 137", "SIGKILL"},
                      Advice{"plain", {1, 0, false}, "exit code 1", "--log-dir"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
