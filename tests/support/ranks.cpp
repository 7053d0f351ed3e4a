#include "tests/support/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
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
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

RankOutcome run_body(const RankBody& body, const Membership& membership) {
  RankOutcome end;
  try {
    body(membership);
    return end;
  } catch (const std::exception& error) {
    end.timed_out = dynamic_cast<const TimeoutError*>(&error) != nullptr;
    end.text = error.what();
    if (const FailureCause* const cause = cause_of(error)) end.cause = *cause;
  } catch (...) {
    end.text = "an exception of unknown type";
  }
  end.failed = true;
  return end;
}

void throw_first_failure(const std::vector<RankOutcome>& ends, int first) {
  if (first < 0) return;
  const RankOutcome& end = ends[static_cast<std::size_t>(first)];
  std::string text = "rank " + std::to_string(first) + " failed first: " + end.text;
  if (end.signal != 0) text += std::string("killed by ") + ::strsignal(end.signal);
  throw std::runtime_error(text);
}

std::vector<RankOutcome> threads(int world_size, const RankBody& body, const RanksOptions& options, int& first) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<Membership> members = thread_memberships(world_size, options.timeout, store);
  for (Membership& member : members) member.join_timeout = options.join_timeout;
  std::vector<RankOutcome> ends(members.size());
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<bool> running(members.size(), true);
  first = -1;
  std::vector<std::thread> ranks;
  for (const Membership& member : members) {
    ranks.emplace_back([&, member] {
      RankOutcome end = run_body(body, member);
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

// What the running test's failed expectations say.
std::vector<std::string> failed_expectations() {
  std::vector<std::string> texts;
  const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
  for (int i = 0; info != nullptr && i < info->result()->total_part_count(); ++i) {
    const ::testing::TestPartResult& part = info->result()->GetTestPartResult(i);
    if (!part.failed()) continue;
    texts.push_back(std::string(part.file_name() ? part.file_name() : "?") + ":" + std::to_string(part.line_number()) +
                    ": " + part.message());
  }
  return texts;
}

// "T" for a TimeoutError or "E", the cause, a line feed, and the text.
std::string report_of(const RankOutcome& end) {
  const std::string cause = end.cause ? to_string(end.cause->kind) + (" " + std::to_string(end.cause->rank)) : "";
  return (end.timed_out ? "T" : "E") + cause + "\n" + end.text;
}

void take_report(RankOutcome& end, const std::string& report) {
  const std::size_t line = report.find('\n');
  const std::string cause = report.substr(1, line - 1);
  end.timed_out = report[0] == 'T';
  end.text = report.substr(line + 1);
  const std::size_t space = cause.find(' ');
  if (space != std::string::npos) {
    end.cause = FailureCause{failure_kind(cause.substr(0, space)).value(), std::stoi(cause.substr(space + 1))};
  }
}

[[noreturn]] void run_child(int rank, int world_size, const std::string& store, const RankBody& body,
                            const RanksOptions& options, const MpiPlaces* places, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(world_size));
  set("LOCAL_RANK", std::to_string(rank));
  set("LOCAL_WORLD_SIZE", std::to_string(world_size));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", "1");  // nobody is there: the store is on the socket
  set("LOCKSTEP_STORE", store);
  ::unsetenv("LOCKSTEP_SECRET");
  ::unsetenv("LOCKSTEP_SECRET_FILE");
  if (places != nullptr) {
    for (const auto& [name, value] : places->variables(rank)) set(name.c_str(), value);
  }
  if (options.prepare) options.prepare(rank);
  const std::size_t failed_before = failed_expectations().size();
  RankOutcome end = run_body(
      [&](const Membership&) {
        RendezvousOptions meeting;
        meeting.timeout = options.timeout;
        meeting.join_timeout = options.join_timeout;
        const Membership membership = rendezvous(meeting);
        body(membership);
        membership.store->finish(Deadline::after(std::chrono::seconds(30)));
      },
      Membership());
  const std::vector<std::string> failed = failed_expectations();
  if (!end.failed && failed.size() > failed_before) {
    end.failed = true;
    end.text = "an expectation failed: " + failed[failed_before];
  }
  if (end.failed) write_all(report, report_of(end));
  std::fflush(nullptr);
  ::_exit(end.failed ? 1 : 0);
}

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

void read_report(Child& child) {
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
  end.failed = !WIFEXITED(child.status) || WEXITSTATUS(child.status) != 0;
  if (WIFSIGNALED(child.status)) end.signal = WTERMSIG(child.status);
  if (child.text.find('\n') != std::string::npos) take_report(end, child.text);
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
      read_report(child);
      const bool failed = child.ended && child.status != 0;
      if (!before && failed && first < 0) first = static_cast<int>(rank);
    }
    const bool only_stopped = all([](const Child& child) { return child.ended || child.stopped; });
    if (only_stopped || deadline.passed()) {
      for (Child& child : children) {
        if (child.ended) continue;
        if (!child.stopped) child.text = "E\nThe rank did not end by the test's deadline.";
        ::kill(child.pid, SIGKILL);
        child.stopped = false;
      }
    }
    ::usleep(2000);
  }
  std::vector<RankOutcome> result;
  for (Child& child : children) {
    read_report(child);
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
