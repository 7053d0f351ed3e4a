// Ranks as processes forked from the caller's.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/group_place.h"
#include "lockstep/base/processor/core_count.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/host_threads.h"
#include "lockstep/comm/inner_ranks.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/sockets/runtime_folder.h"

namespace lockstep {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kEchoLimit(10);  // for the other ranks, once one has failed
constexpr std::size_t kMostReportBytes = std::size_t{1} << 16;

// Calls a function of a library that may not be loaded.
template <class... Arguments>
void call_if_loaded(const char* name, Arguments... arguments) {
  if (void* function = ::dlsym(RTLD_DEFAULT, name)) reinterpret_cast<void (*)(Arguments...)>(function)(arguments...);
}

// Ends the threads that libraries keep for later; the libraries start new ones when they need them.
void refuse_other_threads() {
  constexpr int kPauseHard = 2;  // omp_pause_hard
  call_if_loaded("omp_pause_resource_all", kPauseHard);
  call_if_loaded("blas_thread_shutdown_");
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  const auto threads = std::distance(begin(tasks), end(tasks));
  if (threads == 1) return;
  throw Error(fmt::format("this process has {} threads, but ranks can only be forked from a process with one", threads),
              "spawn_processes",
              "call it before anything that starts threads; or use threads as ranks, or `lockstep run`");
}

// A failed rank's report to the caller: the time and the error, as fields that end with a zero byte.
struct FailureReport {
  SteadyClock::duration when{};
  bool timed_out = false;
  std::string happened, where, fix;
};

FailureReport current_failure() {
  FailureReport report;
  report.when = SteadyClock::now().time_since_epoch();
  try {
    throw;
  } catch (const Error& error) {
    report.timed_out = dynamic_cast<const TimeoutError*>(&error) != nullptr;
    report.happened = error.happened();
    report.where = error.where();
    report.fix = error.fix();
  } catch (const std::exception& error) {
    report.happened = error.what();
  } catch (...) {
    report.happened = "an exception of unknown type";
  }
  return report;
}

void send_report(int fd, const FailureReport& report) {
  std::string text = fmt::format("{}", report.when.count()) + '\0' + (report.timed_out ? "1" : "0") + '\0';
  for (const std::string* field : {&report.happened, &report.where, &report.fix}) {
    text += field->substr(0, kMostReportBytes / 4) + '\0';
  }
  const char* at = text.data();
  for (std::size_t left = text.size(); left > 0;) {
    const ssize_t written = ::write(fd, at, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    at += written;
    left -= static_cast<std::size_t>(written);
  }
}

std::optional<FailureReport> report_from(const std::string& text) {
  std::vector<std::string> fields;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\0'); end != std::string::npos; end = text.find('\0', begin)) {
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (fields.size() != 5) return std::nullopt;
  return FailureReport{SteadyClock::duration(std::strtoll(fields[0].c_str(), nullptr, 10)), fields[1] == "1", fields[2],
                       fields[3], fields[4]};
}

void set_environment(int rank, int world_size, const std::string& store) {
  const std::string size = std::to_string(world_size);
  const std::string number = std::to_string(rank);
  for (const char* name : {"RANK", "LOCAL_RANK"}) ::setenv(name, number.c_str(), 1);
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) ::setenv(name, size.c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", "1", 1);  // no rank listens there: the store is on the socket
  ::setenv("LOCKSTEP_STORE", store.c_str(), 1);
  // Only this user can use the socket. The error file is for the caller, which gets this rank's failure.
  for (const char* name : {"LOCKSTEP_SECRET", "LOCKSTEP_SECRET_FILE", "TORCHELASTIC_ERROR_FILE"}) ::unsetenv(name);
}

void run_body(int world_size, const RankFunction& body, const SpawnOptions& options,
              std::shared_ptr<Communicator>& group) {
  const int threads = std::max(1, compute_cores() / world_size);
  compute_with_threads(threads);
  RendezvousOptions meeting;
  meeting.timeout = options.timeout;
  const Membership membership = rendezvous(meeting);
  group = make_communicator(options.engine, membership);
  set_default_place(GroupPlace{membership.rank, membership.world_size});
  body(group);
  group.reset();
  membership.store->finish(Deadline::after(std::chrono::seconds(5)));
}

[[noreturn]] void run_rank_process(int rank, int world_size, const std::string& store, const RankFunction& body,
                                   const SpawnOptions& options, int report) {
  int code = 0;
  std::shared_ptr<Communicator> group;  // the other ranks notice a failure when it ends, so it must be reported before
  try {
    set_environment(rank, world_size, store);
    run_body(world_size, body, options, group);
  } catch (...) {
    const FailureReport failure = current_failure();
    send_report(report, failure);
    try {
      if (group) group->abort(failure.happened.substr(0, failure.happened.find('\n')));
    } catch (const std::exception&) {  // the end of this process shows them the failure as well
    }
    code = 1;
  }
  std::fflush(nullptr);
  ::_exit(code);  // the caller's objects must not be destroyed by this process
}

// A rank from its parent's side.
struct RankProcess {
  pid_t pid = -1;
  UniqueFd report;
  std::string text;
  int status = 0;
  bool ended = false;

  void look() {
    char block[4096];
    for (;;) {
      pollfd ready{report.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      const ssize_t got = ::read(report.get(), block, sizeof(block));
      if (got <= 0) break;
      if (text.size() < kMostReportBytes) text.append(block, static_cast<std::size_t>(got));
    }
    if (!ended && ::waitpid(pid, &status, WNOHANG) == pid) ended = true;
  }
  bool failed() const { return ended && status != 0; }
};

/// All ranks; the destructor kills those that still run.
class RankProcesses {
 public:
  RankProcesses(int world_size, const std::string& store, const RankFunction& body, const SpawnOptions& options) {
    std::fflush(nullptr);  // otherwise each process would write the buffered output
    const pid_t parent = ::getpid();
    for (int rank = 0; rank < world_size; ++rank) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2");
      UniqueFd from(ends[0]);
      const UniqueFd to(ends[1]);
      const pid_t pid = ::fork();
      if (pid < 0) throw_errno("fork");
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        run_rank_process(rank, world_size, store, body, options, to.get());
      }
      ranks_.push_back({pid, std::move(from), {}, 0, false});
    }
  }
  ~RankProcesses() { kill_rest(); }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void wait() {
    std::optional<SteadyClock::time_point> first_failure;
    for (;;) {
      bool all_ended = true;
      for (RankProcess& rank : ranks_) {
        rank.look();
        all_ended = all_ended && rank.ended;
        if (rank.failed() && !first_failure) first_failure = SteadyClock::now();
      }
      if (all_ended) break;
      if (first_failure && SteadyClock::now() - *first_failure > kEchoLimit) {
        kill_rest();
        break;
      }
      ::usleep(1000);
    }
    for (RankProcess& rank : ranks_) rank.look();  // output written just before the end
    throw_first_failure();
  }

 private:
  [[noreturn]] static void throw_errno(const char* call) {
    throw Error(fmt::format("{} failed: {}", call, errno_text(errno)), "spawn_processes",
                "raise the limits on processes and open files");
  }

  void kill_rest() {
    for (RankProcess& rank : ranks_) {
      if (rank.ended) continue;
      ::kill(rank.pid, SIGKILL);
      killed_here_.push_back(rank.pid);
      while (::waitpid(rank.pid, &rank.status, 0) < 0 && errno == EINTR) continue;
      rank.ended = true;
    }
  }

  bool was_killed_here(const RankProcess& rank) const {
    return std::count(killed_here_.begin(), killed_here_.end(), rank.pid) != 0;
  }

  // A rank that a signal ended is the cause, because the others only noticed it. Otherwise the earliest failure.
  void throw_first_failure() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankProcess& it = ranks_[rank];
      if (!WIFSIGNALED(it.status) || was_killed_here(it)) continue;
      throw Error(fmt::format("rank {} (process {}) was killed by signal {} ({})", rank, it.pid, WTERMSIG(it.status),
                              ::strsignal(WTERMSIG(it.status))),
                  "spawn_processes", "read what it wrote; SIGKILL is often the kernel's, for lack of memory");
    }
    std::optional<FailureReport> first;
    std::size_t who = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].failed()) continue;
      const FailureReport silent{SteadyClock::duration::max(), false,
                                 fmt::format("its process ended with status {}", WEXITSTATUS(ranks_[rank].status)), "",
                                 "read what it wrote"};
      FailureReport report = report_from(ranks_[rank].text).value_or(silent);
      if (!first || report.when < first->when) {
        first = std::move(report);
        who = rank;
      }
    }
    if (!first) return;
    const std::string what = fmt::format("rank {}: {}", who, first->happened);
    const std::string where = first->where.empty() ? "spawn_processes" : first->where;
    const std::string fix = first->fix.empty() ? "read what that rank wrote" : first->fix;
    if (first->timed_out) throw TimeoutError(what, where, fix);
    throw Error(what, where, fix);
  }

  std::vector<RankProcess> ranks_;
  std::vector<pid_t> killed_here_;
};

}  // namespace

void spawn_processes(int world_size, const RankFunction& body, const SpawnOptions& options) {
  if (world_size < 1) {
    throw Error(fmt::format("{} ranks cannot be started", world_size), "spawn_processes", "start one or more");
  }
  refuse_other_threads();
  static int calls = 0;  // in this process, which has one thread
  const std::string path = fmt::format("{}/spawn-{}-{}", private_runtime_folder(), ::getpid(), ++calls);
  const SocketAddress address = SocketAddress::unix_socket(path);
  run_inner_ranks([&] {
    RankProcesses ranks(world_size, address.text(), body, options);
    // Made after the forks, which must not copy its thread. The ranks wait for the socket.
    const StoreServer server(address, "");
    ranks.wait();
  });
}

}  // namespace lockstep
