#include "bench/tables/bench_contender.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "tools/frame/companion.h"

extern char** environ;

namespace lockstep {
namespace {

constexpr std::chrono::seconds kTurnLimit(180);
constexpr std::chrono::seconds kEndLimit(5);

std::string make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error("cannot make a folder in " + name + ": " + errno_text(errno), "bench",
                "set TMPDIR to a folder on a disk with free space");
  }
  return name;
}

UniqueFd make_pipe(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) {
    throw Error("cannot make the pipe " + path + ": " + errno_text(errno), "bench", "set TMPDIR to a local folder");
  }
  return UniqueFd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));  // both ends, so that opening does not block
}

}  // namespace

const std::vector<std::string>& BenchContender::known() {
  static const std::vector<std::string> names = {"shm", "shm-any", "thread", "tcp", "gloo", "gloo-engine", "mpi"};
  return names;
}

std::string BenchContender::missing(const std::string& engine) {
  if (engine != "gloo" && engine != "mpi") return "";
  return has_companion("lockstep-all-reduce-" + engine)
             ? ""
             : "its program was not built; `cmake --build --preset release` does, where the library is installed";
}

BenchContender::BenchContender(std::string engine, int ranks, std::size_t largest_bytes)
    : engine_(std::move(engine)), ranks_(ranks), folder_(make_folder()) {
  std::filesystem::create_directory(folder_ + "/store");
  for (int rank = 0; rank < ranks_; ++rank) {
    to_.push_back(make_pipe(fmt::format("{}/in.{}", folder_, rank)));
    from_.push_back(make_pipe(fmt::format("{}/out.{}", folder_, rank)));
  }
  partial_.resize(to_.size());
  start_ranks(largest_bytes);
  for (std::size_t rank = 0; rank < from_.size(); ++rank) answer(rank);  // "ready"
}

BenchContender::~BenchContender() {
  to_.clear();  // ends their input
  const Deadline deadline = Deadline::after(kEndLimit);
  for (const pid_t process : processes_) {
    while (::waitpid(process, nullptr, WNOHANG) == 0) {
      if (deadline.passed()) ::kill(process, SIGKILL);
      ::usleep(2000);
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string BenchContender::program(const std::string& name) const { return companion_program(name); }

void BenchContender::start_ranks(std::size_t largest_bytes) {
  const std::string largest = std::to_string(largest_bytes);
  const std::string ranks = std::to_string(ranks_);
  if (engine_ == "mpi") {
    std::vector<std::string> command = {"mpirun", "-np", ranks, "--oversubscribe"};
    if (ranks_ > available_cores()) command.insert(command.end(), {"--bind-to", "none"});
    command.insert(command.end(), {program("lockstep-all-reduce-mpi"), folder_, largest});
    spawn(command, {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
    return;
  }
  if (engine_ == "gloo") {
    for (int rank = 0; rank < ranks_; ++rank) {
      spawn({program("lockstep-all-reduce-gloo"), folder_, largest, std::to_string(rank), ranks}, {});
    }
    return;
  }
  const std::string engine = engine_ == "shm-any" ? "shm" : engine_ == "gloo-engine" ? "gloo" : engine_;
  std::vector<std::string> worker = {
      program("lockstep-all-reduce-worker"), "--engine", engine, "--folder", folder_, "--largest", largest};
  if (engine_ == "shm-any" || engine_ == "tcp" || engine_ == "gloo-engine") worker.push_back("--any-memory");
  if (ranks_ > available_cores()) worker.push_back("--shares-cores");
  if (engine_ == "thread") {
    worker.insert(worker.end(), {"--threads", ranks});
    spawn(worker, {{"OMP_NUM_THREADS", "1"}});
    return;
  }
  std::vector<std::string> command = {program("lockstep"), "run", "--nproc-per-node", ranks};
  command.insert(command.end(), worker.begin(), worker.end());
  spawn(command, {});
}

void BenchContender::spawn(std::vector<std::string> command,
                           const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  pid_t process = 0;
  const int code = ::posix_spawnp(&process, arguments[0], nullptr, nullptr, arguments.data(), pointers.data());
  if (code != 0) {
    throw Error(fmt::format("cannot start {}: {}", command[0], errno_text(code)), "bench all-reduce, " + engine_,
                "install it, or leave this engine out of --engines");
  }
  processes_.push_back(process);
}

// Returns the next line of a rank.
std::string BenchContender::answer(std::size_t rank) {
  const Deadline deadline = Deadline::after(kTurnLimit);
  std::string& text = partial_[rank];
  for (;;) {
    const std::size_t end = text.find('\n');
    if (end != std::string::npos) {
      std::string line = text.substr(0, end);
      text.erase(0, end + 1);
      return line;
    }
    pollfd ready{from_[rank].get(), POLLIN, 0};
    char block[256];
    if (::poll(&ready, 1, 100) > 0) {
      const ssize_t got = ::read(from_[rank].get(), block, sizeof(block));
      if (got > 0) text.append(block, static_cast<std::size_t>(got));
      continue;
    }
    for (const pid_t process : processes_) {
      siginfo_t ended{};
      if (::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0) {
        throw Error(fmt::format("a process of {} ended", engine_), "bench all-reduce", "read its message above");
      }
    }
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("rank {} of {} does not answer", rank, engine_), "bench all-reduce",
                         "measure fewer ranks, smaller sizes, or without this engine");
    }
  }
}

double BenchContender::take_turn(std::size_t bytes) {
  const std::string line = std::to_string(bytes) + "\n";
  for (const UniqueFd& to : to_) {
    if (::write(to.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw Error("cannot write to a rank of " + engine_ + ": " + errno_text(errno), "bench all-reduce", "try again");
    }
  }
  double slowest_us = 0;
  for (std::size_t rank = 0; rank < from_.size(); ++rank) {
    const std::string text = answer(rank);
    if (text.rfind("error", 0) == 0) {
      throw Error(fmt::format("rank {} of {}: {}", rank, engine_, text), "bench all-reduce",
                  "this is a bug: report it");
    }
    slowest_us = std::max(slowest_us, std::strtod(text.c_str(), nullptr));
  }
  return slowest_us;
}

}  // namespace lockstep
