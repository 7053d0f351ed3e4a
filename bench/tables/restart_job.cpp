#include "bench/tables/restart_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr int kPatienceMs = 60000;
constexpr std::size_t kLinesKept = 12;

pid_t start(const std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int code = ::posix_spawnp(&pid, arguments.front(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (code != 0)
    throw Error("cannot start " + command.front() + ": " + errno_text(code), "bench restart", "install it");
  return pid;
}

}  // namespace

RestartJob::RestartJob(std::vector<std::string> command, int ranks, RankOutput output)
    : command_(std::move(command)), ranks_(ranks), format_(output) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("no pipe: " + errno_text(errno), "bench restart", "ulimit -n");
  output_ = UniqueFd(ends[0]);
  const UniqueFd write_end(ends[1]);
  pid_ = start(command_, write_end.get());
}

RestartJob::~RestartJob() {
  ::kill(pid_, SIGTERM);
  // Reads the remaining output, so that a full pipe does not block it.
  std::array<char, 4096> block{};
  for (pollfd waited{output_.get(), POLLIN, 0}; ::poll(&waited, 1, 10000) > 0;) {
    if (::read(output_.get(), block.data(), block.size()) <= 0) break;
  }
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string RestartJob::next_line() {
  for (;;) {
    const std::size_t end = text_.find('\n');
    if (end != std::string::npos) {
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      last_.push_back(line);
      if (last_.size() > kLinesKept) last_.erase(last_.begin());
      return line;
    }
    std::array<char, 4096> block{};
    pollfd waited{output_.get(), POLLIN, 0};
    const bool came = ::poll(&waited, 1, kPatienceMs) > 0;
    const ssize_t got = came ? ::read(output_.get(), block.data(), block.size()) : 0;
    if (got <= 0) {
      throw Error(fmt::format("{}; its last lines:\n    {}", came ? "the job has ended" : "nothing came for a minute",
                              fmt::join(last_, "\n    ")),
                  fmt::format("{}", fmt::join(command_, " ")), "run this command by hand");
    }
    text_.append(block.data(), static_cast<std::size_t>(got));
  }
}

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
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", pid_));
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
    const std::string line = next_line();
    take(line);
    seen = seen || line.find(sign) != std::string::npos;
  }
  const int starts = starts_;
  ::kill(last_rank(), SIGKILL);
  const auto killed = Clock::now();
  while (starts_ == starts) take(next_line());
  step_ = 0;
  while (step_ == 0) take(next_line());
  const double seconds = std::chrono::duration<double>(Clock::now() - killed).count();
  if (step_ <= kStepsPerSave) {
    throw Error(fmt::format("the job continued with step {}, not after its checkpoint", step_),
                fmt::format("{}", fmt::join(command_, " ")), "this is a bug: report it");
  }
  return seconds;
}

}  // namespace lockstep
