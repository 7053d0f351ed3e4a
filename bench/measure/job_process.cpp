#include "bench/measure/job_process.h"

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
#include <utility>

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
    throw Error("cannot start " + command.front() + ": " + errno_text(code), "lockstep bench", "install it");
  return pid;
}

}  // namespace

JobProcess::JobProcess(std::vector<std::string> command) : command_(std::move(command)) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("no pipe: " + errno_text(errno), "lockstep bench", "ulimit -n");
  output_ = UniqueFd(ends[0]);
  const UniqueFd write_end(ends[1]);
  pid_ = start(command_, write_end.get());
}

std::string JobProcess::command() const { return fmt::format("{}", fmt::join(command_, " ")); }

JobProcess::~JobProcess() {
  ::kill(pid_, SIGTERM);
  // Reads the remaining output, so that a full pipe does not block it.
  std::array<char, 4096> block{};
  for (pollfd waited{output_.get(), POLLIN, 0}; ::poll(&waited, 1, 10000) > 0;) {
    if (::read(output_.get(), block.data(), block.size()) <= 0) break;
  }
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string JobProcess::next_line() {
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
                  command(), "run this command by hand");
    }
    text_.append(block.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep
