// Simulates the agreement of ranks that survive others, seed by seed: docs/design/survival-protocol.md.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/simulation/faults.h"

namespace lockstep::simulation {
namespace {

struct Flags {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1000;
  bool shows = false;
  bool holds = false;
};

std::uint64_t number_of(const std::string& text) {
  std::size_t end = 0;
  const std::uint64_t number = std::stoull(text, &end);
  if (end != text.size()) throw std::invalid_argument(text);
  return number;
}

Flags read_flags(int count, char** words) {
  Flags flags;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--show") {
      flags.shows = true;
    } else if (word == "--hold") {
      flags.holds = true;
    } else if (word == "--seeds" && has_value) {
      flags.seeds = number_of(words[++i]);
    } else if (word == "--first" && has_value) {
      flags.first = number_of(words[++i]);
    } else {
      throw std::invalid_argument(word);
    }
  }
  return flags;
}

// That a program's definitions of clock_gettime and nanosleep are used depends on the C++ library.
void check_clock() {
  Simulation simulation(1, false);
  const auto before = std::chrono::steady_clock::now();
  Time slept{0};
  Process process(
      simulation, 0, 0,
      [&] {
        std::this_thread::sleep_for(std::chrono::hours(1));
        slept = std::chrono::steady_clock::now() - before;
      },
      [] {});
  process.start(Time(0));
  while (simulation.step(std::chrono::hours(2))) {
  }
  if (slept == Time(std::chrono::hours(1))) return;
  throw Error("std::chrono::steady_clock or sleep_for is not the simulation's", "this program",
              "see how this C++ library reads its clock, and add that to simulated_time.cpp");
}

double seconds_now() {
  timespec time{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void print_schedule(std::uint64_t seed, bool holds) {
  const Outcome again = simulate(seed, true, holds);
  fmt::print("the schedule of seed {}:\n{}\n", seed, fmt::join(again.schedule, "\n"));
}

int run(const Flags& flags) {
  check_clock();
  const double begin = seconds_now();
  std::uint64_t groups = 0, successors = 0, jobs_lost = 0, events = 0;
  std::array<std::uint64_t, kFaultNames.size()> faults{};
  for (std::uint64_t seed = flags.first; seed < flags.first + flags.seeds; ++seed) {
    const Outcome outcome = simulate(seed, false, flags.holds);
    if (flags.shows) print_schedule(seed, flags.holds);
    if (!outcome.violation.empty()) {
      fmt::print("seed {} FAILED: {}\n", seed, outcome.violation);
      if (!flags.shows) print_schedule(seed, flags.holds);
      return 1;
    }
    groups += outcome.groups - 1;
    successors += static_cast<std::uint64_t>(outcome.started);
    jobs_lost += outcome.finished == 0 ? 1 : 0;
    events += outcome.events;
    for (std::size_t kind = 0; kind < faults.size(); ++kind) faults.at(kind) += outcome.faults.at(kind);
  }
  fmt::print("{} seeds from {}: all held, in {:.1f} s and {} events\n", flags.seeds, flags.first, seconds_now() - begin,
             events);
  for (std::size_t kind = 0; kind < faults.size(); ++kind)
    fmt::print("{:>10}  {}\n", faults.at(kind), kFaultNames.at(kind));
  fmt::print("{:>10}  processes\n{:>10}  groups formed after the first\n{:>10}  jobs lost all that had the state\n",
             successors, groups, jobs_lost);
  return 0;
}

}  // namespace
}  // namespace lockstep::simulation

int main(int count, char** words) {
  using namespace lockstep::simulation;
  ::setenv("LOCKSTEP_LOG_LEVEL", "error", /*overwrite=*/0);  // thousands of jobs warn
  try {
    return run(read_flags(count, words));
  } catch (const std::logic_error& wrong) {
    fmt::print(stderr, "usage: survival_simulator [--seeds N] [--first S] [--hold] [--show]; not understood: {}\n",
               wrong.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
