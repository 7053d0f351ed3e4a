#include "lockstep/launch/process/process_table.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kLookInterval{5};
constexpr std::chrono::seconds kKillTimeout{5};

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code status;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", status)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && stop == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct ProcessState {
  char state = 'Z';
  pid_t parent = 0;

  bool runs() const { return state != 'Z' && state != 'X'; }
};

// From /proc/PID/stat: "12 (name, which may contain anything) S 1 ..."
ProcessState state_of(pid_t pid) {
  const std::string stat = content("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  ProcessState result;
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return result;
  result.state = stat[name_end + 2];
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), result.parent);
  return result;
}

// Whether this process has a child outside of `except`, by the kernel's list; true if the kernel keeps no such list.
bool has_other_children(const std::set<pid_t>& except) {
  std::error_code status;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", status)) {
    std::ifstream children(thread.path() / "children");
    if (!children) return true;
    for (pid_t pid = 0; children >> pid;) {
      if (except.count(pid) == 0) return true;
    }
  }
  return static_cast<bool>(status);
}

bool ignores(pid_t pid, int signal) {
  const std::string status = content("/proc/" + std::to_string(pid) + "/status");
  const std::string key = "\nSigIgn:\t";
  const std::size_t at = status.find(key);
  std::uint64_t mask = 0;
  if (at == std::string::npos) return false;
  std::from_chars(status.data() + at + key.size(), status.data() + status.size(), mask, 16);
  return (mask >> (signal - 1) & 1) != 0;
}

bool is_ending(pid_t pid, const SentSignal& sent) {
  return sent.number != 0 && sent.groups.count(::getpgid(pid)) != 0 && !ignores(pid, sent.number);
}

}  // namespace

std::vector<pid_t> descendants(pid_t ancestor, const std::set<pid_t>& except) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : all_processes()) {
    const ProcessState process = state_of(pid);
    if (process.runs()) children.emplace(process.parent, pid);
  }
  std::vector<pid_t> found{ancestor};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) {
      if (except.count(child->second) == 0) found.push_back(child->second);
    }
  }
  found.erase(found.begin());
  return found;
}

bool takes_signal(pid_t pid, int number) {
  std::istringstream lines(content("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    const bool is_set = line.rfind("SigBlk:", 0) == 0 || line.rfind("SigIgn:", 0) == 0 || line.rfind("SigCgt:", 0) == 0;
    if (!is_set) continue;
    const std::uint64_t set = std::strtoull(line.c_str() + std::strlen("SigBlk:"), nullptr, 16);
    if (((set >> (number - 1)) & 1) != 0) return true;
  }
  return false;
}

bool is_running_child(pid_t pid, pid_t parent) {
  const ProcessState process = state_of(pid);
  return process.runs() && process.parent == parent;
}

std::vector<pid_t> processes_with(const std::string& name, const std::string& value) {
  const std::string entry = '\0' + name + "=" + value;
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const std::string environment = '\0' + content("/proc/" + std::to_string(pid) + "/environ") + '\0';
    const std::size_t at = environment.find(entry);
    if (at == std::string::npos) continue;
    const char next = environment[at + entry.size()];
    if (next == '\0' || next == '/') found.push_back(pid);
  }
  return found;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void reap_orphans(const std::set<pid_t>& except, const std::function<bool(pid_t)>& is_waited_for) {
  siginfo_t info{};
  // Checks before it reaps: the exit status of some children belongs to other code.
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
         except.count(info.si_pid) == 0 && !is_waited_for(info.si_pid)) {
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    info.si_pid = 0;
  }
}

std::vector<pid_t> end_descendants(const std::set<pid_t>& except, const SentSignal& sent, Deadline kill_at,
                                   const std::function<bool()>& is_urgent) {
  const auto nobody = [](pid_t) { return false; };
  const pid_t self = ::getpid();
  reap_orphans(except, nobody);
  if (!has_other_children(except)) return {};  // then there are no grandchildren either
  std::vector<pid_t> alive = descendants(self, except);
  for (const pid_t pid : alive) {
    if (!is_ending(pid, sent)) ::kill(pid, SIGTERM);
  }
  Deadline give_up = Deadline::never();
  while (!alive.empty() && !give_up.passed()) {
    // Repeated in each round: a process may have forked between the check and the signal.
    if (kill_at.passed() || is_urgent()) {
      if (give_up.is_never()) give_up = Deadline::after(kKillTimeout);
      for (const pid_t pid : alive) ::kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(kLookInterval);
    reap_orphans(except, nobody);
    alive = descendants(self, except);
  }
  return alive;
}

}  // namespace lockstep
