#include "lockstep/net/server/server_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/log.h"

namespace lockstep {
namespace {

// A stranger's connection is dropped for a new one only if it is at least this old: enough for an honest handshake.
constexpr std::chrono::milliseconds kMinUnprovenAge{100};

}  // namespace

void ServerConnections::accept_all() {
  for (;;) {
    if (unproven_.size() >= options_.max_unproven_connections && !drop_oldest_unproven()) return pause_accepting(true);
    UniqueFd fd(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EMFILE || errno == ENFILE) warn_about_files();
      // No descriptor or no memory: waiting connections stay in the kernel's queue.
      if (!drop_oldest_unproven()) return pause_accepting(true);
      close_broken();
      continue;
    }
    add(std::move(fd));
  }
}

ServerConnection* ServerConnections::find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() || broken_.count(id) > 0 ? nullptr : found->second.get();
}

void ServerConnections::admit(const ServerConnection& connection) {
  unproven_.remove(connection.id());
  if (connections_.size() - unproven_.size() > options_.max_clients) {
    log_warning("store at {}: more than {} clients; one was turned away", listener_.address.text(),
                options_.max_clients);
    mark_broken(connection.id(), "too many clients");
  }
}

void ServerConnections::update_interest(const ServerConnection& connection) {
  poller_.set_interest(connection.fd(), connection.id(), connection.wants_to_read(), connection.wants_to_write());
}

void ServerConnections::close_broken() {
  while (!broken_.empty()) {
    const auto [id, cause] = *broken_.begin();
    const auto found = connections_.find(id);
    if (found != connections_.end()) {
      if (!found->second->proven()) unproven_.remove(id);
      connections_.erase(found);
      poller_.forget(id);
      closed_(id, cause);
      pause_accepting(false);
    }
    broken_.erase(id);
  }
}

void ServerConnections::check_times(Deadline::Clock::time_point now) {
  for (const ConnectionId id : unproven_) {
    if (now - connections_.at(id)->accepted_at() > options_.handshake_timeout) mark_broken(id, "no handshake in time");
  }
  close_broken();
  pause_accepting(false);
}

std::chrono::milliseconds ServerConnections::longest_wait(std::chrono::milliseconds tick) const {
  return accepting_ ? tick : std::min(tick, kMinUnprovenAge);
}

void ServerConnections::add(UniqueFd fd) {
  const bool is_tcp = listener_.address.kind == SocketAddress::Kind::Tcp;
  if (!is_tcp && !peer_is_same_user(fd.get())) return;
  if (is_tcp) tune_connection(fd.get());
  const ConnectionId id = next_id_++;
  if (!poller_.add(fd.get(), id)) return;
  connections_[id] = std::make_unique<ServerConnection>(id, std::move(fd), secret_, is_tcp);
  unproven_.push_back(id);
}

bool ServerConnections::drop_oldest_unproven() {
  if (unproven_.empty()) return false;
  const ConnectionId oldest = unproven_.front();
  if (Deadline::Clock::now() - connections_.at(oldest)->accepted_at() < kMinUnprovenAge) return false;
  mark_broken(oldest, "made room for others");
  close_broken();
  return true;
}

void ServerConnections::warn_about_files() {
  if (std::exchange(warned_about_files_, true)) return;
  log_warning("store at {}: no descriptors left for more connections; raise the limit of open files (ulimit -n)",
              listener_.address.text());
}

void ServerConnections::pause_accepting(bool pause) {
  if (accepting_ != pause) return;
  accepting_ = !pause;
  poller_.set_interest(listener_.fd.get(), kListenerEvent, !pause, false);
}

}  // namespace lockstep
