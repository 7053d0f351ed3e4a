// Contenders in turn, on one thread, and what each of them reached.
#pragma once

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"

namespace lockstep {

/// Processor seconds of this thread, which differ less than the clock's while other programs run.
inline double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// One way to do a job. The result of `run` must be the same for all that do the whole job.
struct LibraryContender {
  std::string name;
  std::function<std::size_t()> run;
  std::vector<double> seconds = {};
};

/// Runs each contender once a round, and prints the median of its megabytes a second.
inline void print_turns(const std::string& title, std::size_t bytes, std::vector<LibraryContender> contenders) {
  constexpr int kRounds = 7;
  std::size_t expected = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (LibraryContender& contender : contenders) {
      const double start = thread_seconds();
      const std::size_t result = contender.run();
      contender.seconds.push_back(thread_seconds() - start);
      if (expected == 0) expected = result;
      if (result == expected) continue;
      std::fprintf(stderr, "%s, %s: %zu, and the first said %zu\n", title.c_str(), contender.name.c_str(), result,
                   expected);
      std::exit(1);
    }
  }
  std::printf("%s, %.1f MB, load %.1f\n", title.c_str(), 1e-6 * static_cast<double>(bytes), load_average());
  for (const LibraryContender& contender : contenders) {
    std::printf("  %-40s %8.0f MB/s\n", contender.name.c_str(),
                1e-6 * static_cast<double>(bytes) / median(contender.seconds));
  }
}

}  // namespace lockstep
