#include "lockstep/net/server/store_server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/home_process.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/server/server_connections.h"
#include "lockstep/net/server/store_service.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/sockets/socket_poller.h"

namespace lockstep {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

constexpr ConnectionId kStopEvent = 1;
constexpr milliseconds kMaxTick{500};

Listener checked_listener(const SocketAddress& address, const std::string& secret) {
  Listener listener = listen_at(address, Deadline::after(std::chrono::seconds(30)));
  if (secret.empty() && !listener.loopback) {
    throw Error(
        fmt::format("a store at {} could be reached from other hosts, but there is no secret to keep strangers out",
                    listener.address.text()),
        host_name(),
        "give all ranks the same LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE, or use 127.0.0.1 if all ranks run on this "
        "host");
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
    if (!stop_ || !poller_.add(listener_.fd.get(), ServerConnections::kListenerEvent) ||
        !poller_.add(stop_.get(), kStopEvent)) {
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
      const milliseconds wait = connections_.longest_wait(tick);
      const auto events = poller_.wait(wait);
      const auto now = Clock::now();
      const std::lock_guard lock(mutex_);
      // This process was stopped or starved, so the clients' messages are late because of it.
      if (now - slept_from > tick + std::chrono::seconds(1)) service_.forgive(now - slept_from - tick);
      for (const SocketPoller::Event& event : events) handle_event(event);
      connections_.close_broken();
      if (now - last_check_ >= wait) check_times(now);
      changed_.notify_all();
    }
  }

  void handle_event(const SocketPoller::Event& event) {
    if (event.id == kStopEvent) return;
    if (event.id == ServerConnections::kListenerEvent) return connections_.accept_all();
    ServerConnection* const found = connections_.find(event.id);
    if (found == nullptr) return;
    ServerConnection& connection = *found;
    const bool was_proven = connection.proven();
    bool open = true;
    try {
      if (event.writable) connection.flush();
      if (event.readable) open = connection.read();
      if (connection.proven() && !was_proven) connections_.admit(connection);
      while (const auto frame = connection.next_frame()) service_.handle(connection.id(), *frame, Clock::now());
    } catch (const WireError& error) {
      return connections_.mark_broken(connection.id(), error.happened());
    } catch (const std::exception& error) {  // out of memory for its data
      return connections_.mark_broken(connection.id(), error.what());
    }
    if (!open) return connections_.mark_broken(connection.id(), "connection closed");
    connections_.update_interest(connection);
  }

  void send(ConnectionId to, const std::string& body) {
    ServerConnection* const found = connections_.find(to);
    if (found == nullptr) return;
    try {
      found->send(body);
      connections_.update_interest(*found);
    } catch (const WireError& error) {
      connections_.mark_broken(to, error.happened());
    }
  }

  void check_times(Clock::time_point now) {
    last_check_ = now;
    connections_.check_times(now);
    service_.check_heartbeats(now, options_.heartbeat_timeout);
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
  ServerConnections connections_{
      listener_, poller_, secret_, options_,
      [this](ConnectionId id, const std::string& cause) { service_.disconnected(id, cause); }};
  Clock::time_point last_check_ = Clock::now();

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
