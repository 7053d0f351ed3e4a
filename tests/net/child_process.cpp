#include "tests/net/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace lockstep::testing {
namespace {

std::vector<std::string> environment_for(const std::map<std::string, std::string>& added) {
  std::vector<std::string> variables;
  for (char** next = environ; *next != nullptr; ++next) {
    const std::string variable = *next;
    bool of_a_job = false;
    for (const char* prefix : {"RANK=", "WORLD_SIZE=", "LOCAL_", "MASTER_", "TORCHELASTIC_", "LOCKSTEP_"}) {
      of_a_job = of_a_job || variable.rfind(prefix, 0) == 0;
    }
    if (!of_a_job) variables.push_back(variable);
  }
  for (const auto& [name, value] : added) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::map<std::string, ChildRole>& child_roles() {
  static std::map<std::string, ChildRole> roles;
  return roles;
}

ChildProcess::ChildProcess(const std::string& role, const std::vector<std::string>& arguments,
                           const std::map<std::string, std::string>& environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  pipe_ = UniqueFd(ends[0]);
  const UniqueFd write_end(ends[1]);
  std::vector<std::string> command{"net_test", "--child", role};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment_for(environment);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  const int status =
      ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, pointers(command).data(), pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (status != 0) throw std::runtime_error("posix_spawn failed");
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::signal(int number) const { ::kill(pid_, number); }

int ChildProcess::wait() {
  std::array<char, 4096> block;
  for (ssize_t got = 0; (got = ::read(pipe_.get(), block.data(), block.size())) > 0;) {
    output_.append(block.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace lockstep::testing
