#include "lockstep/launch/process/orphan_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/job_mark.h"
#include "lockstep/base/log.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/process/exit_status.h"
#include "lockstep/launch/process/process_table.h"

namespace lockstep {
namespace {

constexpr char kAdd = '+';
constexpr char kRemove = '-';
constexpr char kDismissed = 'q';

// Somebody, or something, ends each of them.
constexpr int kMostGuards = 20;

struct Message {
  char what = 0;
  pid_t group = 0;
};

// Closes everything that other processes may wait for: a reader of the launcher's output must see its end.
void let_go_of_everything_but(int pipe) {
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
  ::dup2(pipe, STDERR_FILENO + 1);
  ::close_range(STDERR_FILENO + 2, ~0U, 0);
}

void kill_everything(const std::set<pid_t>& groups, const std::string& mark) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  while (!deadline.passed()) {
    for (const pid_t group : groups) ::kill(-group, SIGKILL);
    bool found = false;
    for (const pid_t pid : processes_with(kJobMarkVariable, mark)) {
      if (pid != ::getpid() && ::kill(pid, SIGKILL) == 0) found = true;
    }
    if (!found) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

[[noreturn]] void stand_guard(int pipe, const std::string& mark, const std::string& folder) {
  ::setsid();
  ::prctl(PR_SET_NAME, "lockstep-guard");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  let_go_of_everything_but(pipe);
  std::set<pid_t> groups;
  Message message;
  while (message.what != kDismissed) {
    const ssize_t got = ::read(STDERR_FILENO + 1, &message, sizeof(message));
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof(message)) break;
    if (message.what == kAdd) groups.insert(message.group);
    if (message.what == kRemove) groups.erase(message.group);
  }
  if (message.what != kDismissed) kill_everything(groups, mark);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  ::_exit(0);
}

}  // namespace

OrphanGuard::OrphanGuard(const std::string& mark, const std::string& folder) : mark_(mark), folder_(folder) { start(); }

void OrphanGuard::start() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error("cannot make a pipe: " + errno_text(errno), "the launcher", "raise ulimit -n");
  }
  const UniqueFd read_end(ends[0]);
  pipe_ = UniqueFd(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0)
    throw Error("cannot start the guard process of the job: " + errno_text(errno), "the launcher",
                advice_without_process(errno));
  if (pid_ == 0) {
    pipe_.reset();  // otherwise it would wait for itself
    ::prctl(PR_SET_PDEATHSIG, SIGCONT);
    stand_guard(read_end.get(), mark_, folder_);
  }
  pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

OrphanGuard::~OrphanGuard() {
  if (pid_ < 0) return;
  send(kDismissed, 0);
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    ::kill(pid_, SIGCONT);  // somebody may have stopped it
    pollfd end{pidfd_.get(), POLLIN, 0};
    ::poll(&end, 1, 100);
  }
}

std::string OrphanGuard::renew() {
  siginfo_t info{};
  const bool is_known = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) == 0;
  pid_ = -1;
  pidfd_.reset();
  start();
  for (const pid_t group : groups_) send(kAdd, group);
  return is_known ? exit_status_of(info).describe() : "ended";
}

void OrphanGuard::add_group(pid_t group) {
  groups_.insert(group);
  send(kAdd, group);
}

void OrphanGuard::remove_group(pid_t group) {
  groups_.erase(group);
  send(kRemove, group);
}

void OrphanGuard::send(char what, pid_t group) const {
  Message message;
  message.what = what;
  message.group = group;
  // If the guard has just been killed, the next one gets all groups.
  [[maybe_unused]] const ssize_t written = ::write(pipe_.get(), &message, sizeof(message));
}

GuardWatch::GuardWatch(EventLoop& loop, OrphanGuard& guard) : loop_(loop), guard_(guard) { watch(); }

GuardWatch::~GuardWatch() { loop_.forget(token_); }

void GuardWatch::watch() {
  if (guard_.pidfd() >= 0) token_ = loop_.watch_readable(guard_.pidfd(), [this] { replace(); });
}

void GuardWatch::replace() {
  loop_.forget(token_);
  const pid_t before = guard_.pid();
  try {
    const std::string end = guard_.renew();
    log_warning(
        "the guard process {} of this job ended: {}. It ends what the ranks leave behind if this launcher is killed; "
        "another one, {}, has taken its place",
        before, end, guard_.pid());
    if (++renewed_ == kMostGuards)
      throw Error(fmt::format("{} have ended, and the next is not watched", renewed_), "", "");
    watch();
  } catch (const Error& error) {
    log_warning(
        "this job has no guard process any more: {}. If this launcher is killed, processes that the ranks have "
        "started may stay",
        error.happened());
  }
}

}  // namespace lockstep
