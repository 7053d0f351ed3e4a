#include "lockstep/base/failure_record.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Kind = FailureCause::Kind;

TEST(FailureCause, TravelsWithTheErrorToAnotherPlace) {
  try {
    try {
      throw_caused(TimeoutError("a", "b", "c"), {Kind::Timeout, 3});
    } catch (const Error& error) {
      std::rethrow_exception(moved_to(error, "there"));
    }
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.where(), "there");
    ASSERT_NE(cause_of(error), nullptr);
    EXPECT_EQ(*cause_of(error), (FailureCause{Kind::Timeout, 3}));
  }
}

TEST(FailureCause, StaysWithMoreAdvice) {
  try {
    try {
      throw_caused(Error("a", "b", "c"), {Kind::Disagreement, 2});
    } catch (const Error& error) {
      std::rethrow_exception(with_more_advice(error, "; d"));
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "b");
    EXPECT_EQ(error.fix(), "c; d");
    ASSERT_NE(cause_of(error), nullptr);
    EXPECT_EQ(*cause_of(error), (FailureCause{Kind::Disagreement, 2}));
  }
}

TEST(FailureCause, IsNullWhereNoneWasGiven) {
  EXPECT_EQ(cause_of(std::runtime_error("x")), nullptr);
  try {
    std::rethrow_exception(moved_to(Error("a", "b", "c"), "there"));
  } catch (const std::exception& error) {
    EXPECT_EQ(cause_of(error), nullptr);
    EXPECT_EQ(dynamic_cast<const TimeoutError*>(&error), nullptr);
  }
}

TEST(FailureCause, HasNames) {
  for (const Kind kind : {Kind::Own, Kind::LostPeer, Kind::PeerLeft, Kind::AbortedByPeer, Kind::Disagreement,
                          Kind::Timeout, Kind::Usage, Kind::Stopped}) {
    EXPECT_EQ(failure_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(failure_kind("x"), std::nullopt);
}

// The content of the file after a separate process ran `body` as rank 1; null if there is no file.
nlohmann::json file_after(const std::function<void()>& body) {
  const TemporaryFolder folder;
  const std::string path = folder / "error.json";
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
    record_failures_as(1);
    // Like the start of a thread: no handler catches what `body` throws.
    [&]() noexcept { body(); }();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(std::filesystem::exists(path + kKnownEnding));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}),
            std::filesystem::exists(path) ? 2 : 1);
  std::ifstream file(path);
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

TEST(FailureRecord, IsWrittenForWhatNobodyCatches) {
  const nlohmann::json json = file_after([] { throw std::runtime_error("shapes\nframe #0: x"); });
  EXPECT_EQ(json["message"]["message"], "shapes\nframe #0: x");
  EXPECT_TRUE(json["message"]["extraInfo"]["timestamp"].is_string());
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}}));
}

TEST(FailureRecord, NamesTheTypeOfWhatIsNoException) {
  EXPECT_EQ(file_after([] { throw 7; })["message"]["message"], "an exception of type int");
}

TEST(FailureRecord, HasTheCause) {
  const nlohmann::json json = file_after([] { throw_caused(Error("lost", "here", "none"), {Kind::LostPeer, 3}); });
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}, {"cause", "lost_peer"}, {"blames", 3}}));
}

// Ranks that have met refuse what they read, too: the record shows it, and each rank need not print it.
TEST(FailureRecord, TellsWhetherARefusalIsRecorded) {
  const nlohmann::json json = file_after([] {
    record_failure("the files differ", {Kind::Usage, -1});
    if (!record_usage_error("the files differ")) throw std::runtime_error("is not recorded");
  });
  EXPECT_EQ(json["message"]["message"], "the files differ");
  EXPECT_EQ(json["lockstep"]["cause"], "usage");
  const nlohmann::json other = file_after([] {
    record_failure("lost", {Kind::LostPeer, 0});
    if (record_usage_error("a wrong flag")) throw std::runtime_error("is recorded");
  });
  EXPECT_EQ(other["message"]["message"], "lost");
}

TEST(FailureRecord, TakesBlameOfItselfForItsOwnFault) {
  const nlohmann::json json = file_after([] { throw_caused(Error("x", "here", "none"), {Kind::AbortedByPeer, 1}); });
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}, {"cause", "own"}}));
}

TEST(FailureRecord, KeepsTheCauseOfWhatWasThrownBefore) {
  const nlohmann::json json = file_after([] {
    try {
      throw_caused(Error("lost", "here", "none"), {Kind::LostPeer, 3});
    } catch (const std::exception& error) {
      record_failure(error);
    }
    throw std::runtime_error("training failed");
  });
  EXPECT_EQ(json["message"]["message"], "training failed");
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}, {"cause", "lost_peer"}, {"blames", 3}}));
}

TEST(FailureRecord, IsWrittenBeforeWhatSomebodyCatches) {
  const nlohmann::json json = file_after([] {
    try {
      throw_recorded(Error("the other one failed", "here", "none"), {Kind::AbortedByPeer, 3});
    } catch (const Error& error) {
      EXPECT_NE(cause_of(error), nullptr);
    }
  });
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}, {"cause", "aborted_by_peer"}, {"blames", 3}}));
}

TEST(FailureRecord, ForgetsWhatTheProgramSurvived) {
  const auto survive = [] {
    record_failure("the other one failed", {Kind::AbortedByPeer, 3});
    forget_failure();
  };
  EXPECT_TRUE(file_after(survive).is_null());
  const nlohmann::json json = file_after([&] {
    survive();
    throw std::runtime_error("a failure of its own");
  });
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}}));
}

// The numbers of ranks that a program starts by itself mean others in its job.
TEST(FailureRecord, LeavesOutTheCausesOfInnerRanks) {
  EXPECT_TRUE(file_after([] {
                const InnerRanks inner;
                record_failure("an inner rank lost another", {Kind::LostPeer, 0});
                forget_failure();
              }).is_null());
  const nlohmann::json json = file_after([] {
    const InnerRanks inner;
    try {
      throw_caused(Error("lost", "here", "none"), {Kind::LostPeer, 0});
    } catch (const Error&) {
      std::terminate();
    }
  });
  EXPECT_EQ(json["message"]["message"], "lost\n  where: here\n  fix: none");
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}, {"cause", "own"}}));
}

TEST(FailureRecord, InnerRanksDoNotForgetAFailureOfTheProcess) {
  const nlohmann::json json = file_after([] {
    record_failure("the other one failed", {Kind::AbortedByPeer, 3});
    const InnerRanks inner;
    forget_failure();
  });
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}, {"cause", "aborted_by_peer"}, {"blames", 3}}));
}

TEST(FailureCause, CanBeLeftOut) {
  try {
    try {
      throw_caused(TimeoutError("a", "b", "c"), {Kind::Timeout, 2});
    } catch (const Error& error) {
      std::rethrow_exception(without_cause(error));
    }
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.happened(), "a");
    EXPECT_EQ(cause_of(error), nullptr);
  }
}

TEST(FailureRecord, TellsWhyAProcessThatHasNotFailedEnds) {
  for (const bool is_own : {false, true}) {
    const nlohmann::json json = file_after([&] {
      ::setenv("RANK", "1", 1);
      record_stop("after update 7", is_own);
    });
    EXPECT_EQ(json["message"]["message"], "after update 7");
    nlohmann::json want{{"rank", 1}, {"cause", "stopped"}};
    if (is_own) want["blames"] = 1;
    EXPECT_EQ(json["lockstep"], want);
  }
}

TEST(FailureRecord, AFailureAfterAStopDoesNotBecomeOne) {
  const nlohmann::json json = file_after([] {
    record_stop("after update 7", true);
    throw std::runtime_error("evaluation failed");
  });
  EXPECT_EQ(json["message"]["message"], "evaluation failed");
  EXPECT_EQ(json["lockstep"], (nlohmann::json{{"rank", 1}}));
}

TEST(FailureRecord, CallsTheHandlerThatWasThereBefore) {
  const TemporaryFolder folder;
  const std::string mark = folder / "mark";
  const pid_t child = ::fork();
  if (child == 0) {
    static std::string path;
    path = mark;
    std::set_terminate([] {
      std::ofstream(path) << "seen";
      ::_exit(7);
    });
    record_failures_as(0);
    std::terminate();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(std::filesystem::exists(mark));
}

TEST(FailureRecord, WritesNothingWithoutAFile) {
  EXPECT_TRUE(file_after([] {
                ::unsetenv("TORCHELASTIC_ERROR_FILE");
                record_failure("x", {});
              }).is_null());
}

}  // namespace
}  // namespace lockstep
