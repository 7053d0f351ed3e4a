#include "tests/support/ranks/standing_ranks.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/subgroup.h"
#include "tests/support/mpi_places.h"
#include "tests/support/ranks/rank_report.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// What goes to a keeper and from there to every rank.
struct Order {
  StandingCall call;  ///< without a function: end
  int number = 0;
  std::chrono::milliseconds timeout{};
  std::chrono::milliseconds join_timeout{};
  std::chrono::milliseconds look_interval{};
  std::chrono::milliseconds deadline{};
};
static_assert(std::is_trivially_copyable_v<Order>);

// Two ends of a connection that keeps packets apart.
std::pair<UniqueFd, UniqueFd> connection() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::runtime_error("socketpair: " + errno_text(errno));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool send_packet(int fd, const void* bytes, std::size_t count) {
  ssize_t sent = -1;
  do {
    sent = ::send(fd, bytes, count, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(count);
}

// The next packet; nothing if the other end has gone, or at the deadline.
std::optional<std::string> next_packet(int fd, Deadline deadline) {
  constexpr std::size_t kLongest = 1 << 16;
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    const int changed = ::poll(&ready, 1, deadline.poll_timeout_ms());
    if (changed < 0 && errno == EINTR) continue;
    if (changed <= 0) return std::nullopt;
    std::string packet(kLongest, '\0');
    const ssize_t got = ::recv(fd, packet.data(), packet.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    packet.resize(static_cast<std::size_t>(got));
    return packet;
  }
}

bool send_report(int fd, const RankOutcome& end) {
  constexpr std::size_t kLongestReport = 60'000;
  const std::string report = report_of(end).substr(0, kLongestReport);
  return send_packet(fd, report.data(), report.size());
}

Order order_in(const std::string& packet) {
  Order order;
  std::memcpy(&order, packet.data(), std::min(packet.size(), sizeof(order)));
  return order;
}

Deadline never() { return Deadline::after(std::chrono::hours(24)); }

// A child must not outlive its parent, which may have ended already.
void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
}

// A rank: runs one body after the other.
[[noreturn]] void stand(int rank, int world_size, const std::string& store, int orders) {
  set_rank_variables(rank, world_size, store);
  Membership all;
  while (const auto packet = next_packet(orders, never())) {
    const Order order = order_in(*packet);
    const RankOutcome end = outcome_with_expectations([&] {
      if (!all.store) {
        RendezvousOptions meeting;
        meeting.timeout = order.timeout;
        meeting.join_timeout = order.join_timeout;
        all = rendezvous(meeting);
      }
      std::vector<int> ranks(static_cast<std::size_t>(world_size));
      std::iota(ranks.begin(), ranks.end(), 0);
      Membership membership = subgroup(all, ranks, "run" + std::to_string(order.number));
      membership.timeout = order.timeout;
      membership.join_timeout = order.join_timeout;
      membership.look_interval = RanksOptions().look_interval;
      order.call.function(membership, order.call.argument.data());
    });
    std::fflush(nullptr);
    ::malloc_trim(0);  // it may stand for long
    if (!send_report(orders, end)) break;
  }
  ::_exit(0);
}

struct StandingRank {
  pid_t pid = -1;
  UniqueFd orders;
};

StandingRank fork_rank(int rank, int world_size, const std::string& store, const MpiPlaces* places) {
  auto [here, there] = connection();
  const pid_t keeper = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork: " + errno_text(errno));
  if (pid == 0) {
    end_with(keeper);
    here.reset();
    if (places != nullptr) {
      for (const auto& [name, value] : places->variables(rank)) ::setenv(name.c_str(), value.c_str(), 1);
    }
    stand(rank, world_size, store, there.get());
  }
  return {pid, std::move(here)};
}

// How a rank ended that does not answer: it has died, or it is late and is killed.
RankOutcome silent_end(StandingRank& rank, bool late) {
  RankOutcome end;
  end.failed = true;
  if (late) end.text = "The rank did not end by the test's deadline.";
  if (late || !wait_until_gone(rank.pid, Deadline::after(std::chrono::seconds(10)))) ::kill(rank.pid, SIGKILL);
  int status = 0;
  ::waitpid(rank.pid, &status, 0);
  rank.pid = -1;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.text = "its process ended with status " + std::to_string(WEXITSTATUS(status));
  return end;
}

// Takes the answers of all ranks to an order. Those that failed come first, in the order in which they did.
std::vector<std::pair<int, RankOutcome>> answers_of(std::vector<StandingRank>& ranks, Deadline deadline) {
  std::vector<std::pair<int, RankOutcome>> answers;
  std::vector<bool> answered(ranks.size(), false);
  while (answers.size() < ranks.size()) {
    std::vector<pollfd> waiting;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      waiting.push_back({answered[i] ? -1 : ranks[i].orders.get(), POLLIN, 0});
    const bool late = ::poll(waiting.data(), waiting.size(), deadline.poll_timeout_ms()) <= 0 && deadline.passed();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (answered[i] || (waiting[i].revents == 0 && !late)) continue;
      const auto report = late ? std::nullopt : next_packet(ranks[i].orders.get(), deadline);
      answers.emplace_back(static_cast<int>(i), report ? read_report(*report) : silent_end(ranks[i], late));
      answered[i] = true;
    }
  }
  return answers;
}

// The parent of the ranks, which serves their store. The test's process has no threads for it, and may fork.
[[noreturn]] void keep(int world_size, bool mpi, int orders) {
  {
    const TemporaryFolder folder;
    const SocketAddress address = SocketAddress::unix_socket(folder / "store");
    const auto places = mpi ? std::make_unique<MpiPlaces>(world_size) : nullptr;
    std::vector<StandingRank> ranks;
    for (int rank = 0; rank < world_size; ++rank) {
      ranks.push_back(fork_rank(rank, world_size, address.text(), places.get()));
    }
    StoreServerOptions serving;
    serving.heartbeat_timeout = RanksOptions().heartbeat_timeout;
    const StoreServer server(address, "", serving);
    while (const auto packet = next_packet(orders, never())) {
      const Order order = order_in(*packet);
      if (order.call.function == nullptr) break;
      for (const StandingRank& rank : ranks) send_packet(rank.orders.get(), &order, sizeof(order));
      for (const auto& [rank, end] : answers_of(ranks, Deadline::after(order.deadline))) {
        send_packet(orders, &rank, sizeof(rank));
        send_report(orders, end);
      }
    }
    for (const StandingRank& rank : ranks) {
      if (rank.pid < 0) continue;
      ::kill(rank.pid, SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
    }
  }
  ::_exit(0);
}

std::vector<std::string> own_variables() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "LOCKSTEP_", 9) == 0) found.emplace_back(*entry);
  }
  std::sort(found.begin(), found.end());
  return found;
}

class StandingRanks {
 public:
  StandingRanks(int world_size, bool mpi) : world_size_(world_size) {
    auto [here, there] = connection();
    std::fflush(nullptr);
    keeper_ = ::fork();
    if (keeper_ < 0) throw std::runtime_error("fork: " + errno_text(errno));
    if (keeper_ == 0) {
      end_with(owner_);
      here.reset();
      keep(world_size, mpi, there.get());
    }
    orders_ = std::move(here);
  }
  ~StandingRanks() {
    if (::getpid() != owner_) return;  // a process that was forked from the owner's, and exits
    const Order end;
    send_packet(orders_.get(), &end, sizeof(end));
    if (!wait_until_gone(keeper_, Deadline::after(std::chrono::seconds(30)))) ::kill(keeper_, SIGKILL);
    ::waitpid(keeper_, nullptr, 0);
  }
  StandingRanks(const StandingRanks&) = delete;
  StandingRanks& operator=(const StandingRanks&) = delete;

  bool fits() const { return variables_ == own_variables(); }

  std::vector<RankOutcome> call(const StandingCall& call, const RanksOptions& options, int& first) {
    const Order order{call, ++number_, options.timeout, options.join_timeout, options.look_interval, options.deadline};
    RankOutcome lost;
    lost.failed = true;
    lost.text = "the process that keeps the ranks has ended";
    std::vector<RankOutcome> ends(static_cast<std::size_t>(world_size_), lost);
    send_packet(orders_.get(), &order, sizeof(order));
    const Deadline deadline = Deadline::after(options.deadline + std::chrono::seconds(60));
    first = -1;
    for (int i = 0; i < world_size_; ++i) {
      const auto rank = next_packet(orders_.get(), deadline);
      const auto report = rank ? next_packet(orders_.get(), deadline) : std::nullopt;
      if (!report) {
        if (first < 0) first = 0;
        break;
      }
      int number = 0;
      std::memcpy(&number, rank->data(), sizeof(number));
      RankOutcome& end = ends.at(static_cast<std::size_t>(number));
      end = read_report(*report);
      if (end.failed && first < 0) first = number;
    }
    return ends;
  }

 private:
  const int world_size_;
  const std::vector<std::string> variables_ = own_variables();
  const pid_t owner_ = ::getpid();
  pid_t keeper_ = -1;
  UniqueFd orders_;
  int number_ = 0;
};

std::vector<RankOutcome> ends_of_call(int world_size, const StandingCall& call, const RanksOptions& options,
                                      int& first) {
  static std::map<std::pair<int, bool>, std::unique_ptr<StandingRanks>> all;
  std::unique_ptr<StandingRanks>& ranks = all[{world_size, options.mpi}];
  if (ranks && !ranks->fits()) ranks.reset();
  if (!ranks) ranks = std::make_unique<StandingRanks>(world_size, options.mpi);
  std::vector<RankOutcome> ends = ranks->call(call, options, first);
  if (first >= 0) ranks.reset();
  return ends;
}

}  // namespace

std::vector<RankOutcome> call_standing_ranks(int world_size, const StandingCall& call, const RanksOptions& options) {
  int first = -1;
  return ends_of_call(world_size, call, options, first);
}

void call_standing_ranks_or_throw(int world_size, const StandingCall& call, const RanksOptions& options) {
  int first = -1;
  const std::vector<RankOutcome> ends = ends_of_call(world_size, call, options, first);
  throw_first_failure(ends, first);
}

}  // namespace lockstep
