// What a training does with SIGTERM while it is busy: each case a process of its own, which the signal may end.
#include "lockstep/train/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "lockstep/base/signals.h"

namespace lockstep {
namespace {

constexpr std::chrono::hours kLong{1};
constexpr std::chrono::milliseconds kNoTime{0};

// How a process ends that does `body`: the signal, or the exit code negated.
int end_of_process(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

constexpr int kTookNote = 7;
int note_of(const StopSignal& signal) { return signal.received() != 0 ? kTookNote : 0; }

TEST(StopSignal, TakesNoteOfOneAndOfThoseThatFollowAtOnce) {
  const int end = end_of_process([] {
    const StopSignal signal(kLong);
    if (signal.received()) return 1;
    for (const int number : {SIGTERM, SIGTERM, SIGUSR1, SIGTERM}) ::raise(number);
    return note_of(signal);
  });
  EXPECT_EQ(end, -kTookNote);
}

TEST(StopSignal, ALaterSigtermEndsAProcessThatNeverLooks) {
  const int end = end_of_process([] {
    const StopSignal signal(kNoTime);
    ::raise(SIGTERM);
    ::raise(SIGTERM);
    return note_of(signal);
  });
  EXPECT_EQ(end, SIGTERM);
}

// Ctrl-C, and a second Ctrl-C for those in a hurry.
TEST(StopSignal, TheFirstInterruptIsNotedAndALaterOneEndsTheProcess) {
  const int first = end_of_process([] {
    const StopSignal signal(kLong);
    for (int i = 0; i < 3; ++i) ::raise(SIGINT);
    return signal.received();
  });
  EXPECT_EQ(first, -SIGINT);
  const int second = end_of_process([] {
    const StopSignal signal(kNoTime);
    ::raise(SIGINT);
    ::raise(SIGINT);
    return note_of(signal);
  });
  EXPECT_EQ(second, SIGINT);
}

// A terminal that is closed, and what a user or a shell sends at the same time.
TEST(StopSignal, SignalsOfSeveralKindsAtOnceAreOneRequest) {
  for (const int first : {SIGHUP, SIGINT, SIGTERM}) {
    const int end = end_of_process([first] {
      const StopSignal signal(kLong);
      ::raise(first);
      for (const int number : {SIGTERM, SIGHUP, SIGINT}) ::raise(number);
      return signal.received();
    });
    EXPECT_EQ(end, -first);
  }
}

TEST(StopSignal, ALaterHangupEndsTheProcessUnlessItWasIgnored) {
  for (const bool is_ignored : {false, true}) {
    const int end = end_of_process([is_ignored] {
      if (is_ignored) std::signal(SIGHUP, SIG_IGN);  // as nohup does
      const StopSignal signal(kNoTime);
      ::raise(SIGHUP);
      ::raise(SIGHUP);
      return note_of(signal);
    });
    EXPECT_EQ(end, is_ignored ? 0 : SIGHUP);
  }
}

// As a shell starts `lockstep train ... &` in a script.
TEST(StopSignal, AnInterruptThatIsIgnoredStaysIgnored) {
  const int end = end_of_process([] {
    std::signal(SIGINT, SIG_IGN);
    const StopSignal signal(kNoTime);
    ::raise(SIGINT);
    ::raise(SIGINT);
    return note_of(signal);
  });
  EXPECT_EQ(end, 0);
}

// Slurm's warning, and the end of the job's time while the checkpoint is being written.
TEST(StopSignal, TheFirstSigtermAfterSigusr1EndsNothing) {
  const int end = end_of_process([] {
    const StopSignal signal(kNoTime);
    for (const int number : {SIGUSR1, SIGUSR1, SIGTERM}) ::raise(number);
    return note_of(signal);
  });
  EXPECT_EQ(end, -kTookNote);
}

TEST(StopSignal, TakesNoteOfEveryWarningOfABatchSystem) {
  for (const int number : kWarningSignals) {
    const int end = end_of_process([number] {
      const StopSignal signal(kNoTime);
      ::raise(number);
      ::raise(number);
      return signal.received();
    });
    EXPECT_EQ(end, -number) << signal_name(number);
  }
}

TEST(StopSignal, AWarningThatTheProgramHandlesKeepsItsMeaning) {
  const int end = end_of_process([] {
    std::signal(SIGALRM, [](int) {});
    const StopSignal signal(kNoTime);
    ::raise(SIGALRM);
    return note_of(signal);
  });
  EXPECT_EQ(end, 0);
}

// `lockstep train` reads its data, and evaluates and saves after the training.
TEST(StopSignal, WarningsBeforeTheTrainingAreKeptForItAndThoseAfterItEndNothing) {
  const int end = end_of_process([] {
    hold_warning_signals();
    ::raise(SIGUSR1);
    int noted = 0;
    {
      const StopSignal signal(kNoTime);
      noted = signal.received() == SIGUSR1 ? kTookNote : 0;
    }
    ::raise(SIGUSR1);
    return noted;
  });
  EXPECT_EQ(end, -kTookNote);
}

volatile std::sig_atomic_t programs_own_calls = 0;

TEST(StopSignal, ALaterSigtermIsForTheProgramsOwnHandler) {
  const int end = end_of_process([] {
    std::signal(SIGTERM, [](int) { programs_own_calls = programs_own_calls + 1; });
    const StopSignal signal(kNoTime);
    ::raise(SIGTERM);
    if (programs_own_calls != 0) return 1;
    ::raise(SIGTERM);
    return programs_own_calls == 1 ? note_of(signal) : 2;
  });
  EXPECT_EQ(end, -kTookNote);
}

}  // namespace
}  // namespace lockstep
