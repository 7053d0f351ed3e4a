#include "lockstep/net/server/store_server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/home_process.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/server/server_connection.h"
#include "lockstep/net/server/store_service.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/sockets/socket_poller.h"

namespace lockstep {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

constexpr ConnectionId kListenerEvent = 0;
constexpr ConnectionId kStopEvent = 1;
constexpr ConnectionId kFirstConnection = 2;
// A stranger's connection is dropped for a new one only if it is at least this old: enough for an honest handshake.
constexpr milliseconds kMinUnprovenAge{100};
constexpr milliseconds kMaxTick{500};

Listener checked_listener(const SocketAddress& address, const std::string& secret) {
  Listener listener = listen_at(address, Deadline::after(std::chrono::seconds(30)));
  if (secret.empty() && !listener.loopback) {
    throw Error(
        fmt::format("a store at {} could be reached from other hosts, and there is no secret to keep strangers out",
                    listener.address.text()),
        host_name(),
        "give all ranks the same LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE, or use 127.0.0.1 where all ranks run on "
        "this host");
  }
  if (listener.address.kind == SocketAddress::Kind::Tcp) check_encryption_has_secret(secret, listener.address.text());
  return listener;
}

}  // namespace

class StoreServer::Implementation {
 public:
  Implementation(const SocketAddress& address, const std::string& secret, const StoreServerOptions& options)
      : options_(options),
        secret_(secret),
        listener_(checked_listener(address, secret)),
        service_("store at " + listener_.address.text(),
                 [this](ConnectionId to, const std::string& body) { send(to, body); }) {
    if (!stop_ || !poller_.add(listener_.fd.get(), kListenerEvent) || !poller_.add(stop_.get(), kStopEvent)) {
      throw Error("cannot start the store: " + errno_text(errno), host_name(),
                  "raise the limit of open files (ulimit -n)");
    }
    if (secret.empty() && listener_.address.kind == SocketAddress::Kind::Tcp) {
      log_warning(
          "the store at {} has no secret: any user of this host can join the job. Set LOCKSTEP_SECRET to prevent it",
          listener_.address.text());
    }
    const SignalsBlocked blocked;
    thread_ = start_thread("serves the store", [this] { serve(); });
  }

  ~Implementation() {
    if (!home_.is_here()) {  // a forked child: the thread and the socket file are the parent's
      thread_.detach();
      listener_.file.release();
      return;
    }
    const std::uint64_t one = 1;
    stopping_ = true;
    while (::write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  const SocketAddress& address() const { return listener_.address; }

  std::vector<LostRank> lost_ranks() const {
    const std::lock_guard lock(mutex_);
    return service_.lost_ranks();
  }

  void mark_lost(std::int64_t generation, const LostRank& lost) {
    const std::lock_guard lock(mutex_);
    service_.mark_lost(generation, lost);
  }

  void resume_generation(std::int64_t generation) {
    const std::lock_guard lock(mutex_);
    service_.resume_generation(generation);
  }

  void forget_generations_before(std::int64_t generation) {
    const std::lock_guard lock(mutex_);
    service_.forget_generations_before(generation);
  }

  std::uint64_t requests() const { return service_.requests(); }

  bool wait_until_left(Deadline deadline) {
    std::unique_lock lock(mutex_);
    while (!service_.all_left()) {
      if (deadline.passed()) return false;
      changed_.wait_for(lock, deadline.remaining());
    }
    return true;
  }

 private:
  void serve() {
    const milliseconds tick = std::clamp(options_.heartbeat_timeout / 4, milliseconds(10), kMaxTick);
    while (!stopping_) {
      const auto slept_from = Clock::now();
      const milliseconds wait = accepting_ ? tick : std::min(tick, kMinUnprovenAge);
      const auto events = poller_.wait(wait);
      const auto now = Clock::now();
      const std::lock_guard lock(mutex_);
      // This process was stopped or starved, so the clients' messages are late because of it.
      if (now - slept_from > tick + std::chrono::seconds(1)) service_.forgive(now - slept_from - tick);
      for (const SocketPoller::Event& event : events) handle_event(event);
      close_broken();
      if (now - last_check_ >= wait) check_times(now);
      changed_.notify_all();
    }
  }

  void handle_event(const SocketPoller::Event& event) {
    if (event.id == kStopEvent) return;
    if (event.id == kListenerEvent) return accept_all();
    const auto found = connections_.find(event.id);
    if (found == connections_.end() || broken_.count(event.id) > 0) return;
    ServerConnection& connection = *found->second;
    const bool was_proven = connection.proven();
    bool open = true;
    try {
      if (event.writable) connection.flush();
      if (event.readable) open = connection.read();
      if (connection.proven() && !was_proven) admit(connection);
      while (const auto frame = connection.next_frame()) service_.handle(connection.id(), *frame, Clock::now());
    } catch (const WireError& error) {
      return mark_broken(connection.id(), error.happened());
    } catch (const std::exception& error) {  // out of memory for its data
      return mark_broken(connection.id(), error.what());
    }
    if (!open) return mark_broken(connection.id(), "connection closed");
    update_interest(connection);
  }

  void admit(const ServerConnection& connection) {
    unproven_.remove(connection.id());
    if (connections_.size() - unproven_.size() > options_.max_clients) {
      log_warning("store at {}: more than {} clients; one was turned away", address().text(), options_.max_clients);
      mark_broken(connection.id(), "too many clients");
    }
  }

  void send(ConnectionId to, const std::string& body) {
    const auto found = connections_.find(to);
    if (found == connections_.end() || broken_.count(to) > 0) return;
    try {
      found->second->send(body);
      update_interest(*found->second);
    } catch (const WireError& error) {
      mark_broken(to, error.happened());
    }
  }

  // Closed later, because the caller may still be using the connection.
  void mark_broken(ConnectionId id, const std::string& cause) { broken_.emplace(id, cause); }

  void close_broken() {
    while (!broken_.empty()) {
      const auto [id, cause] = *broken_.begin();
      const auto found = connections_.find(id);
      if (found != connections_.end()) {
        if (!found->second->proven()) unproven_.remove(id);
        connections_.erase(found);
        poller_.forget(id);
        service_.disconnected(id, cause);
        pause_accepting(false);
      }
      broken_.erase(id);
    }
  }

  void accept_all() {
    for (;;) {
      if (unproven_.size() >= options_.max_unproven_connections && !drop_oldest_unproven())
        return pause_accepting(true);
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
      add_connection(std::move(fd));
    }
  }

  void add_connection(UniqueFd fd) {
    const bool is_tcp = listener_.address.kind == SocketAddress::Kind::Tcp;
    if (!is_tcp && !peer_is_same_user(fd.get())) return;
    if (is_tcp) tune_connection(fd.get());
    const ConnectionId id = next_id_++;
    if (!poller_.add(fd.get(), id)) return;
    connections_[id] = std::make_unique<ServerConnection>(id, std::move(fd), secret_, is_tcp);
    unproven_.push_back(id);
  }

  bool drop_oldest_unproven() {
    if (unproven_.empty()) return false;
    const ConnectionId oldest = unproven_.front();
    if (Clock::now() - connections_.at(oldest)->accepted_at() < kMinUnprovenAge) return false;
    mark_broken(oldest, "made room for others");
    close_broken();
    return true;
  }

  void warn_about_files() {
    if (std::exchange(warned_about_files_, true)) return;
    log_warning("store at {}: no descriptors left for more connections; raise the limit of open files (ulimit -n)",
                address().text());
  }

  void check_times(Clock::time_point now) {
    last_check_ = now;
    for (const ConnectionId id : unproven_) {
      if (now - connections_.at(id)->accepted_at() > options_.handshake_timeout)
        mark_broken(id, "no handshake in time");
    }
    close_broken();
    service_.check_heartbeats(now, options_.heartbeat_timeout);
    pause_accepting(false);
  }

  void pause_accepting(bool pause) {
    if (accepting_ != pause) return;
    accepting_ = !pause;
    poller_.set_interest(listener_.fd.get(), kListenerEvent, !pause, false);
  }

  void update_interest(const ServerConnection& connection) {
    poller_.set_interest(connection.fd(), connection.id(), connection.wants_to_read(), connection.wants_to_write());
  }

  const StoreServerOptions options_;
  const std::string secret_;
  const HomeProcess home_;
  Listener listener_;
  UniqueFd stop_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> stopping_{false};
  SocketPoller poller_;  // used by the thread only, once it runs

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  StoreService service_;
  std::unordered_map<ConnectionId, std::unique_ptr<ServerConnection>> connections_;
  std::list<ConnectionId> unproven_;            // oldest first
  std::map<ConnectionId, std::string> broken_;  // with the cause
  ConnectionId next_id_ = kFirstConnection;
  Clock::time_point last_check_ = Clock::now();
  bool accepting_ = true;
  bool warned_about_files_ = false;

  std::thread thread_;
};

StoreServer::StoreServer(const SocketAddress& address, const std::string& secret, const StoreServerOptions& options)
    : implementation_(std::make_unique<Implementation>(address, secret, options)) {}
StoreServer::~StoreServer() = default;

const SocketAddress& StoreServer::address() const { return implementation_->address(); }
std::vector<LostRank> StoreServer::lost_ranks() const { return implementation_->lost_ranks(); }
void StoreServer::mark_lost(std::int64_t generation, const LostRank& lost) {
  implementation_->mark_lost(generation, lost);
}
void StoreServer::resume_generation(std::int64_t generation) { implementation_->resume_generation(generation); }
void StoreServer::forget_generations_before(std::int64_t generation) {
  implementation_->forget_generations_before(generation);
}
std::uint64_t StoreServer::requests() const { return implementation_->requests(); }
bool StoreServer::wait_until_left(Deadline deadline) { return implementation_->wait_until_left(deadline); }

}  // namespace lockstep
