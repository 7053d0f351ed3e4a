#include "bench/tables/restart_job.h"

#include <fmt/format.h>
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "lockstep/base/error.h"

namespace lockstep {

RestartJob::RestartJob(std::vector<std::string> command, int ranks, RankOutput output)
    : job_(std::move(command)), ranks_(ranks), format_(output) {}

void RestartJob::take(const std::string& line) {
  format_ == RankOutput::Worker ? take_worker(line) : take_training(line);
}

void RestartJob::take_worker(const std::string& line) {
  int rank = 0;
  int pid = 0;
  if (std::sscanf(line.c_str(), "rank %d pid %d", &rank, &pid) == 2) {
    if (rank == 0) ++starts_;
    if (rank > 0) last_rank_ = pid;
  }
  std::sscanf(line.c_str(), "step %ld", &step_);
}

void RestartJob::take_training(const std::string& line) {
  if (line.find("Running training") != std::string::npos) ++starts_;
  const std::size_t at = line.find("'epoch': ");
  if (line.rfind("{'loss'", 0) != 0 || at == std::string::npos) return;
  step_ = std::lround(std::strtod(line.c_str() + at + std::strlen("'epoch': "), nullptr) * kStepsPerEpoch);
}

// A training does not report its processes, but the environment of each process shows its rank.
pid_t RestartJob::last_rank() const {
  if (format_ == RankOutput::Worker) return last_rank_;
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", job_.pid()));
  for (pid_t child = 0; children >> child;) {
    std::ifstream file(fmt::format("/proc/{}/environ", child));
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    const bool is_rank = environment.find(fmt::format("LOCAL_RANK={}", ranks_ - 1) + '\0') != std::string::npos;
    if (is_rank && environment.find("LOCKSTEP_SPARE=") == std::string::npos) return child;
  }
  return -1;
}

double RestartJob::seconds_to_next_step(long after, const std::string& sign) {
  bool seen = sign.empty();
  while (step_ < after || !seen || last_rank() < 0) {
    const std::string line = job_.next_line();
    take(line);
    seen = seen || line.find(sign) != std::string::npos;
  }
  const int starts = starts_;
  ::kill(last_rank(), SIGKILL);
  const auto killed = Clock::now();
  while (starts_ == starts) take(job_.next_line());
  step_ = 0;
  while (step_ == 0) take(job_.next_line());
  const double seconds = std::chrono::duration<double>(Clock::now() - killed).count();
  if (step_ <= kStepsPerSave) {
    throw Error(fmt::format("the job continued with step {}, not after its checkpoint", step_), job_.command(),
                "this is a bug: report it");
  }
  return seconds;
}

}  // namespace lockstep
