#include "lockstep/comm/tcp/link_loop.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLoopTick{1000};
/// Between two looks at those who connect and say nothing.
constexpr milliseconds kDoorTick{50};

constexpr std::uint64_t kWakeEvent = 0;
constexpr std::uint64_t kGuestEvent = 1;

constexpr std::uint64_t messages_event(int peer) { return 2 + 2 * static_cast<std::uint64_t>(peer); }
constexpr std::uint64_t grants_event(int peer) { return messages_event(peer) + 1; }
constexpr int peer_of_event(std::uint64_t id) { return static_cast<int>(id / 2) - 1; }

}  // namespace

LinkLoop::LinkLoop(std::unique_ptr<PeerDoor> door, int size, Events& events)
    : events_(events),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      door_(std::move(door)),
      watched_(static_cast<std::size_t>(size)),
      next_tick_(std::chrono::steady_clock::now() + kLoopTick),
      added_(watched_.size(), nullptr) {
  if (!wake_ || !poller_.add(wake_.get(), kWakeEvent) || !poller_.add(door_->fd(), kGuestEvent)) {
    throw Error("cannot wait for connections: " + errno_text(errno), host_name(),
                "raise the limit of open files (ulimit -n)");
  }
  const SignalsBlocked blocked;
  thread_ = start_thread("carries messages between ranks", [this] { run(); });
}

LinkLoop::~LinkLoop() {
  stop();
  thread_.join();
}

void LinkLoop::add(int peer, MessageLink& link) {
  const std::lock_guard<std::mutex> lock(mutex_);
  added_[static_cast<std::size_t>(peer)] = &link;
  orders_.push_back(peer);
  wake();
}

void LinkLoop::look_at(int peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  orders_.push_back(peer);
  wake();
}

void LinkLoop::close_door() {
  const std::lock_guard<std::mutex> lock(mutex_);
  door_closes_ = true;
  wake();
}

void LinkLoop::stop() noexcept {
  stopping_ = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  wake();
}

void LinkLoop::wake() noexcept {
  if (std::exchange(woken_, true)) return;
  const std::uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void LinkLoop::run() {
  while (!stopping_) {
    for (const SocketPoller::Event& event : poller_.wait(door_ ? kDoorTick : kLoopTick)) {
      if (stopping_) break;
      handle(event);
    }
    if (stopping_) break;
    if (door_) serve_door();
    const auto now = std::chrono::steady_clock::now();
    if (now < next_tick_) continue;
    next_tick_ = now + kLoopTick;
    events_.tick();
  }
  door_.reset();
}

void LinkLoop::handle(const SocketPoller::Event& event) {
  if (event.id == kWakeEvent) return take_orders();
  if (event.id == kGuestEvent) return;  // serve_door follows
  const int peer = peer_of_event(event.id);
  Watched& watched = watched_[static_cast<std::size_t>(peer)];
  if (watched.ended) return;
  if (event.id == messages_event(peer)) {
    if (event.readable && !watched.link->read_messages()) return end(peer);
  } else if (event.readable && !watched.link->read_grants() && !watched.grants_end) {
    watched.grants_end = true;
    poller_.remove(watched.link->grants_fd(), grants_event(peer));
  }
  write(peer);
}

void LinkLoop::take_orders() {
  std::uint64_t count = 0;
  while (::read(wake_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
  std::unique_lock<std::mutex> lock(mutex_);
  woken_ = false;
  std::vector<int> orders = std::exchange(orders_, {});
  std::sort(orders.begin(), orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  for (const int peer : orders) {
    const auto place = static_cast<std::size_t>(peer);
    MessageLink* const added = std::exchange(added_[place], nullptr);
    if (added == nullptr) continue;
    watched_[place].link = added;
    poller_.add(added->messages_fd(), messages_event(peer));
    poller_.add(added->grants_fd(), grants_event(peer));
  }
  const bool door_closes = std::exchange(door_closes_, false);
  lock.unlock();
  for (const int peer : orders) write(peer);
  if (door_closes && door_) {
    poller_.remove(door_->fd(), kGuestEvent);
    if (door_->turned_away() > 0) {
      log_warning("{}: turned away {} connections that did not prove to be of this group, the last from {}",
                  door_->address().text(), door_->turned_away(), door_->last_turned_away());
    }
    door_.reset();
  }
}

void LinkLoop::serve_door() {
  for (PeerDoor::Guest& guest : door_->serve()) events_.arrived(std::move(guest));
}

void LinkLoop::write(int peer) {
  Watched& watched = watched_[static_cast<std::size_t>(peer)];
  if (watched.ended) return;
  MessageLink& link = *watched.link;
  if (!watched.grants_end) poller_.set_interest(link.grants_fd(), grants_event(peer), true, link.write_grants());
  poller_.set_interest(link.messages_fd(), messages_event(peer), true, link.write_messages());
  if (!link.loss().empty()) end(peer);
}

void LinkLoop::end(int peer) {
  Watched& watched = watched_[static_cast<std::size_t>(peer)];
  watched.ended = true;
  poller_.remove(watched.link->messages_fd(), messages_event(peer));
  if (!watched.grants_end) poller_.remove(watched.link->grants_fd(), grants_event(peer));
  events_.ended(peer);
}

}  // namespace lockstep
