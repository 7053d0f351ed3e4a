#include "lockstep/launch/ranks/spare_ranks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/ranks/rank_environment.h"
#include "lockstep/launch/ranks/spare_message.h"

namespace lockstep {
namespace {

// A spare that ended is followed by another one, unless so many have ended in a row: those that had not even loaded
// cost the ranks time, so fewer of them.
constexpr int kMostEndsWhileLoading = 2;
constexpr int kMostEnds = 20;
// One that has waited for so long has ended for a reason that is not the program's.
constexpr std::chrono::seconds kLongWait{60};

std::string value_in(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.compare(0, name.size() + 1, name + "=") == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

// Sent at once: the socket's buffer is large enough for any environment.
bool send_start(int socket, const ChildCommand& command) {
  std::string block;
  for (const std::string& entry : command.environment) block += entry + '\0';
  SpareStart start;
  start.environment_bytes = static_cast<std::uint32_t>(block.size());
  std::vector<int> descriptors;
  if (command.out >= 0) descriptors.push_back(command.out);
  if (command.err >= 0) descriptors.push_back(command.err);
  start.has_out = command.out >= 0 ? 1 : 0;
  start.has_err = command.err >= 0 ? 1 : 0;

  iovec part{&start, sizeof(start)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  if (!descriptors.empty()) {
    const std::size_t bytes = descriptors.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* attached = CMSG_FIRSTHDR(&message);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(attached), descriptors.data(), bytes);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(start))) return false;
  for (std::size_t sent = 0; sent < block.size();) {
    const ssize_t count = ::send(socket, block.data() + sent, block.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

SpareRanks::~SpareRanks() {
  for (auto& [local_rank, spare] : spares_) {
    loop_.forget(spare->watch);
    ::kill(spare->process.pid, SIGKILL);
    ::waitpid(spare->process.pid, nullptr, 0);
    guard_.remove_group(spare->process.pid);
  }
}

void SpareRanks::prepare(std::map<int, ChildCommand> commands) {
  wanted_ = std::move(commands);
  load_next();
}

void SpareRanks::load_next() {
  for (const auto& [local_rank, spare] : spares_) {
    if (!spare->loaded) return;
  }
  while (!wanted_.empty()) {
    auto [local_rank, command] = *wanted_.begin();
    wanted_.erase(wanted_.begin());
    if (spares_.count(local_rank) == 0 && !is_useless(local_rank)) return start(local_rank, std::move(command));
  }
  if (!spares_.empty()) log_info("warm spares are loaded: {}", spares_.size());
}

void SpareRanks::start(int local_rank, ChildCommand command) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return give_up(local_rank, "no socket: " + errno_text(errno));
  }
  auto spare = std::make_unique<Spare>();
  spare->command = command;
  spare->socket = UniqueFd(ends[0]);
  const UniqueFd other_end(ends[1]);
  const std::string preloaded = value_in(command.environment, "LD_PRELOAD");
  const std::string library = spare_library_path();
  command.environment = merged_environment(command.environment,
                                           {{kSpareVariable, std::to_string(other_end.get())},
                                            {"LD_PRELOAD", preloaded.empty() ? library : library + ":" + preloaded}});
  command.out = command.err = -1;
  command.kept.push_back(other_end.get());
  try {
    spare->process = start_child(command);
    confirm_start(spare->process, command);
  } catch (const Error& error) {
    return give_up(local_rank, error.happened());
  }
  guard_.add_group(spare->process.pid);
  spare->watch = loop_.watch_readable(spare->socket.get(), [this, local_rank] { take_sign(local_rank); });
  spares_[local_rank] = std::move(spare);
}

// The spare is loaded, or it has ended, or was killed.
void SpareRanks::take_sign(int local_rank) {
  Spare& spare = *spares_.at(local_rank);
  char sign = 0;
  if (::recv(spare.socket.get(), &sign, 1, MSG_DONTWAIT) == 1) {
    spare.loaded = true;
    ends_[local_rank].while_loading = 0;
    spare.since = std::chrono::steady_clock::now();
    return load_next();
  }
  take_end(local_rank);
}

void SpareRanks::take_end(int local_rank) {
  const std::unique_ptr<Spare> spare = std::move(spares_.at(local_rank));
  spares_.erase(local_rank);
  loop_.forget(spare->watch);
  ::kill(spare->process.pid, SIGKILL);
  ::waitpid(spare->process.pid, nullptr, 0);
  guard_.remove_group(spare->process.pid);
  int& in_a_row = spare->loaded ? ends_[local_rank].while_waiting : ends_[local_rank].while_loading;
  if (spare->loaded && std::chrono::steady_clock::now() - spare->since > kLongWait) in_a_row = 0;
  if (++in_a_row >= (spare->loaded ? kMostEnds : kMostEndsWhileLoading)) {
    return give_up(local_rank, fmt::format("{} in a row ended before they were needed", in_a_row));
  }
  log_warning("the warm spare for local rank {} ended before it was needed: another one is loaded", local_rank);
  wanted_.emplace(local_rank, std::move(spare->command));
  load_next();
}

void SpareRanks::give_up(int local_rank, const std::string& why) {
  useless_.insert(local_rank);
  log_warning("no warm spare for local rank {}: {}. Restarts of this rank continue without spares", local_rank, why);
  load_next();
}

std::optional<ChildProcess> SpareRanks::release(int local_rank, const ChildCommand& command) {
  wanted_.erase(local_rank);
  const auto found = spares_.find(local_rank);
  if (found == spares_.end()) return std::nullopt;
  const std::unique_ptr<Spare> spare = std::move(found->second);
  spares_.erase(found);
  loop_.forget(spare->watch);
  if (send_start(spare->socket.get(), command)) {
    ends_.clear();  // spares are of use
    useless_.clear();
    return std::move(spare->process);
  }
  ::kill(spare->process.pid, SIGKILL);
  ::waitpid(spare->process.pid, nullptr, 0);
  guard_.remove_group(spare->process.pid);
  return std::nullopt;
}

std::set<pid_t> SpareRanks::processes() const {
  std::set<pid_t> pids;
  for (const auto& [local_rank, spare] : spares_) pids.insert(spare->process.pid);
  return pids;
}

}  // namespace lockstep
