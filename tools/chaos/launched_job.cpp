#include "tools/chaos/launched_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/launch/process/process_table.h"
#include "lockstep/launch/ranks/rank_environment.h"
#include "lockstep/launch/ranks/spare_message.h"

namespace lockstep {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string of_process(pid_t pid, const std::string& file) { return "/proc/" + std::to_string(pid) + "/" + file; }

std::map<std::string, std::string> variables_of(pid_t pid) {
  std::map<std::string, std::string> variables;
  std::istringstream entries(content_of(of_process(pid, "environ")));
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

// So that no process but a rank or spare has a rank's variables, and ranks log how long they waited.
std::vector<std::string> launcher_environment() {
  const auto is_ours = [](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('='));
    return name == "RANK" || name == "LOCKSTEP_MEMBER" || name == kSpareVariable;
  };
  std::vector<std::string> entries = own_environment();
  entries.erase(std::remove_if(entries.begin(), entries.end(), is_ours), entries.end());
  return merged_environment(entries, {{"LOCKSTEP_LOG_LEVEL", "info"}});
}

}  // namespace

LaunchedJob::LaunchedJob(std::vector<std::string> words, const std::string& log) {
  const UniqueFd written(::open(log.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
  log_ = UniqueFd(::open(log.c_str(), O_RDONLY | O_CLOEXEC));
  if (!written || !log_) {
    throw Error("cannot write " + log + ": " + errno_text(errno), "lockstep chaos", "check that TMPDIR has free space");
  }
  ChildCommand command;
  command.arguments = std::move(words);
  command.environment = launcher_environment();
  command.out = command.err = written.get();
  launcher_ = start_child(command);
  confirm_start(launcher_, command);
}

LaunchedJob::~LaunchedJob() {
  if (launcher_.pid <= 0) return;
  ::kill(launcher_.pid, SIGKILL);
  ::waitpid(launcher_.pid, nullptr, 0);
}

ExitStatus LaunchedJob::status() {
  siginfo_t end{};
  ::waitid(P_PIDFD, static_cast<id_t>(launcher_.pidfd.get()), &end, WEXITED);
  launcher_.pid = -1;
  return exit_status_of(end);
}

std::vector<ChildOfLauncher> LaunchedJob::processes() const {
  std::vector<ChildOfLauncher> found;
  std::istringstream children(
      content_of(of_process(launcher_.pid, "task/" + std::to_string(launcher_.pid) + "/children")));
  for (pid_t pid = 0; children >> pid;) {
    const auto variables = variables_of(pid);
    if (variables.count("RANK") == 0 || !is_running_child(pid, launcher_.pid)) continue;
    ChildOfLauncher process;
    process.pid = pid;
    process.is_successor = variables.count("LOCKSTEP_MEMBER") + variables.count(kSpareVariable) > 0;
    const auto file = variables.find("LOCKSTEP_SURVIVAL_FILE");
    if (file != variables.end()) process.survival_file = file->second;
    found.push_back(std::move(process));
  }
  return found;
}

// The descriptor stays with the process that was checked, also if its number is used again.
bool LaunchedJob::send(pid_t pid, int signal) const {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process || !is_running_child(pid, launcher_.pid)) return false;
  return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

std::vector<std::string> LaunchedJob::new_lines() {
  char block[65536];
  for (ssize_t got = 0; (got = ::read(log_.get(), block, sizeof(block))) > 0;) {
    partial_.append(block, static_cast<std::size_t>(got));
  }
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(partial_.substr(begin, end - begin));
  }
  partial_.erase(0, begin);
  return lines;
}

}  // namespace lockstep
