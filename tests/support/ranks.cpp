#include "tests/support/ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/memory_store.h"
#include "lockstep/net/thread_ranks.h"
#include "tests/support/mpi_places.h"
#include "tests/support/ranks/rank_report.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::vector<RankOutcome> threads(int world_size, const RankBody& body, const RanksOptions& options, int& first) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<Membership> members = thread_memberships(world_size, options.timeout, store);
  for (Membership& member : members) {
    member.join_timeout = options.join_timeout;
    member.look_interval = options.look_interval;
  }
  std::vector<RankOutcome> ends(members.size());
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<bool> running(members.size(), true);
  first = -1;
  std::vector<std::thread> ranks;
  for (const Membership& member : members) {
    ranks.emplace_back([&, member] {
      RankOutcome end = outcome_of([&] { body(member); });
      if (end.failed) store->mark_lost(member.rank, end.text.substr(0, end.text.find('\n')));
      const std::lock_guard<std::mutex> lock(mutex);
      if (end.failed && first < 0) first = member.rank;
      ends[static_cast<std::size_t>(member.rank)] = std::move(end);
      running[static_cast<std::size_t>(member.rank)] = false;
      ended.notify_all();
    });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    const auto all_ended = [&] { return std::count(running.begin(), running.end(), true) == 0; };
    if (!ended.wait_for(lock, options.deadline, all_ended)) {
      // A thread cannot be ended from outside, and what it refers to is about to go.
      for (std::size_t rank = 0; rank < running.size(); ++rank) {
        if (running[rank]) std::fprintf(stderr, "rank %zu did not end by the test's deadline\n", rank);
      }
      std::abort();
    }
  }
  for (std::thread& rank : ranks) rank.join();
  return ends;
}

void write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

[[noreturn]] void run_child(int rank, int world_size, const std::string& store, const RankBody& body,
                            const RanksOptions& options, const MpiPlaces* places, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_rank_variables(rank, world_size, store);
  if (places != nullptr) {
    for (const auto& [name, value] : places->variables(rank)) ::setenv(name.c_str(), value.c_str(), 1);
  }
  if (options.prepare) options.prepare(rank);
  const RankOutcome end = outcome_with_expectations([&] {
    RendezvousOptions meeting;
    meeting.timeout = options.timeout;
    meeting.join_timeout = options.join_timeout;
    Membership membership = rendezvous(meeting);
    membership.look_interval = options.look_interval;
    body(membership);
    membership.store->finish(Deadline::after(std::chrono::seconds(30)));
  });
  if (end.failed) write_all(report, report_of(end));
  std::fflush(nullptr);
  ::_exit(end.failed ? 1 : 0);
}

const RankOutcome kTooLate{true, false, 0, std::nullopt, "The rank did not end by the test's deadline."};

// A child and what it reports.
struct Child {
  pid_t pid = -1;
  UniqueFd report;
  std::string text;
  int status = 0;
  bool ended = false;
  bool stopped = false;
};

void look_after(Child& child) {
  if (child.ended) return;
  int status = 0;
  const pid_t changed = ::waitpid(child.pid, &status, WNOHANG | WUNTRACED);
  if (changed != child.pid) return;
  child.stopped = WIFSTOPPED(status);
  if (child.stopped) return;
  child.ended = true;
  child.status = status;
}

void take_text(Child& child) {
  char block[4096];
  for (;;) {
    pollfd ready{child.report.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) return;
    const ssize_t got = ::read(child.report.get(), block, sizeof(block));
    if (got <= 0) return;
    child.text.append(block, static_cast<std::size_t>(got));
  }
}

RankOutcome end_of(const Child& child) {
  RankOutcome end;
  if (!child.text.empty()) end = read_report(child.text);
  end.failed = !WIFEXITED(child.status) || WEXITSTATUS(child.status) != 0;
  if (WIFSIGNALED(child.status)) end.signal = WTERMSIG(child.status);
  return end;
}

std::vector<RankOutcome> processes(int world_size, const RankBody& body, const RanksOptions& options, int& first) {
  const TemporaryFolder folder;
  const SocketAddress address = SocketAddress::unix_socket(folder / "store");
  std::vector<Child> children(static_cast<std::size_t>(world_size));
  const auto places = options.mpi ? std::make_unique<MpiPlaces>(world_size) : nullptr;
  std::fflush(nullptr);
  for (int rank = 0; rank < world_size; ++rank) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2: " + errno_text(errno));
    const UniqueFd write_end(ends[1]);
    Child& child = children[static_cast<std::size_t>(rank)];
    child.report = UniqueFd(ends[0]);
    child.pid = ::fork();
    if (child.pid < 0) throw std::runtime_error("fork: " + errno_text(errno));
    if (child.pid == 0) run_child(rank, world_size, address.text(), body, options, places.get(), write_end.get());
  }
  // After the forks: a child of a process with threads may inherit their locks. The ranks wait for the socket.
  StoreServerOptions serving;
  serving.heartbeat_timeout = options.heartbeat_timeout;
  StoreServer server(address, "", serving);

  const Deadline deadline = Deadline::after(options.deadline);
  first = -1;
  const auto all = [&](const auto& what) { return std::all_of(children.begin(), children.end(), what); };
  while (!all([](const Child& child) { return child.ended; })) {
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
      Child& child = children[rank];
      const bool before = child.ended;
      look_after(child);
      take_text(child);
      const bool failed = child.ended && child.status != 0;
      if (!before && failed && first < 0) first = static_cast<int>(rank);
    }
    const bool only_stopped = all([](const Child& child) { return child.ended || child.stopped; });
    if (only_stopped || deadline.passed()) {
      for (Child& child : children) {
        if (child.ended) continue;
        if (!child.stopped) child.text = report_of(kTooLate);
        ::kill(child.pid, SIGKILL);
        child.stopped = false;
      }
    }
    ::usleep(2000);
  }
  std::vector<RankOutcome> result;
  for (Child& child : children) {
    take_text(child);
    result.push_back(end_of(child));
  }
  return result;
}

}  // namespace

std::vector<RankOutcome> ranks_as_threads(int world_size, const RankBody& body, const RanksOptions& options) {
  int first = -1;
  return threads(world_size, body, options, first);
}

std::vector<RankOutcome> ranks_as_processes(int world_size, const RankBody& body, const RanksOptions& options) {
  int first = -1;
  return processes(world_size, body, options, first);
}

void run_ranks_as_threads(int world_size, const RankBody& body, const RanksOptions& options) {
  int first = -1;
  const std::vector<RankOutcome> ends = threads(world_size, body, options, first);
  throw_first_failure(ends, first);
}

void run_ranks_as_processes(int world_size, const RankBody& body, const RanksOptions& options) {
  int first = -1;
  const std::vector<RankOutcome> ends = processes(world_size, body, options, first);
  throw_first_failure(ends, first);
}

}  // namespace lockstep
