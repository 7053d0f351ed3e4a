// The program's monotonic clock and its sleep, in place of the C library's: code under test needs no seam for them.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "tests/simulation/process.h"
#include "tests/simulation/simulation.h"

namespace {

using lockstep::simulation::Process;
using lockstep::simulation::Simulation;
using lockstep::simulation::Time;

constexpr long kPerSecond = 1'000'000'000;

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const Simulation* const simulation = Simulation::current();
  if (clock != CLOCK_MONOTONIC || simulation == nullptr) {
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  }
  time->tv_sec = simulation->now().count() / kPerSecond + 1;
  time->tv_nsec = simulation->now().count() % kPerSecond;
  return 0;
}

int nanosleep(const timespec* wanted, timespec* left) {
  Process* const process = Process::current();
  if (process == nullptr) return static_cast<int>(::syscall(SYS_nanosleep, wanted, left));
  process->sleep(Time(wanted->tv_sec * kPerSecond + wanted->tv_nsec));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
  Process* const process = Process::current();
  if (process == nullptr) return static_cast<int>(::syscall(SYS_clock_nanosleep, clock, flags, wanted, left));
  const Time time(wanted->tv_sec * kPerSecond + wanted->tv_nsec);
  const Time until = time - std::chrono::seconds(1);  // as clock_gettime has it
  process->sleep((flags & TIMER_ABSTIME) == 0 ? time : std::max(Time(0), until - Simulation::current()->now()));
  return 0;
}

}  // extern "C"
