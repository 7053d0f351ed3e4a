#include "tests/support/running_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace lockstep {
namespace {

std::vector<std::string> environment_with(const std::map<std::string, std::optional<std::string>>& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changes.count(text.substr(0, text.find('='))) == 0) entries.push_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (value) entries.push_back(name + "=" + *value);
  }
  return entries;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Appends what is there; false at the end of the stream.
bool append_from(int fd, std::string& text) {
  std::array<char, 4096> block{};
  const ssize_t got = ::read(fd, block.data(), block.size());
  if (got > 0) text.append(block.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

RunningProgram::RunningProgram(const std::vector<std::string>& arguments,
                               const std::map<std::string, std::optional<std::string>>& changes) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  out_fd_ = UniqueFd(out[0]);
  err_fd_ = UniqueFd(err[0]);
  const UniqueFd out_end(out[1]);
  const UniqueFd err_end(err[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err_end.get(), STDERR_FILENO);
  const std::vector<std::string> environment = environment_with(changes);
  const int status = ::posix_spawnp(&pid_, arguments.front().c_str(), &actions, nullptr, pointers(arguments).data(),
                                    pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (status != 0) {
    pid_ = -1;
    throw std::runtime_error("cannot start " + arguments.front());
  }
}

RunningProgram::~RunningProgram() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void RunningProgram::send(int signal) const { ::kill(pid_, signal); }

bool RunningProgram::read_some(Deadline deadline) {
  std::array<pollfd, 2> streams{pollfd{out_fd_.get(), POLLIN, 0}, pollfd{err_fd_.get(), POLLIN, 0}};
  if (::poll(streams.data(), streams.size(), deadline.poll_timeout_ms()) <= 0) return false;
  if (streams[0].revents != 0 && !append_from(out_fd_.get(), out_)) out_fd_.reset();
  if (streams[1].revents != 0 && !append_from(err_fd_.get(), err_)) err_fd_.reset();
  return true;
}

bool RunningProgram::wait_for(const std::string& text, Deadline deadline) {
  while (out_.find(text) == std::string::npos && err_.find(text) == std::string::npos) {
    if (!wait_for_more(deadline)) return false;
  }
  return true;
}

bool RunningProgram::wait_for_more(Deadline deadline) { return (out_fd_ || err_fd_) && read_some(deadline); }

ProgramEnd RunningProgram::wait(Deadline deadline) {
  while ((out_fd_ || err_fd_) && !deadline.passed()) read_some(deadline);
  if (!wait_until_gone(pid_, deadline)) {
    throw std::runtime_error("a program did not end in time; it wrote:\n" + out_ + err_);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  ProgramEnd end;
  end.out = out_;
  end.err = err_;
  if (WIFEXITED(status)) end.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

ProgramEnd run_program(const std::vector<std::string>& arguments,
                       const std::map<std::string, std::optional<std::string>>& changes, std::chrono::seconds timeout) {
  RunningProgram program(arguments, changes);
  return program.wait(Deadline::after(timeout));
}

bool wait_until_gone(pid_t pid, Deadline deadline) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, deadline.poll_timeout_ms()) == 1;
}

}  // namespace lockstep
