#include "lockstep/net/peers/peer_door.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/sockets/resolve.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kDoorEvent = 0;

}  // namespace

PeerDoor::PeerDoor(const SocketAddress& address, std::string key, int rank, Deadline deadline, const Limits& limits)
    : limits_(limits), key_(std::move(key)), rank_(rank), listener_(listen_at(address, deadline)) {
  if (!poller_.add(listener_.fd.get(), kDoorEvent)) {
    throw Error("cannot wait for other ranks: " + errno_text(errno), host_name(),
                "raise the limit of open files (ulimit -n)");
  }
}

std::vector<PeerDoor::Guest> PeerDoor::serve() {
  std::vector<Guest> guests;
  for (const SocketPoller::Event& event : poller_.wait(std::chrono::milliseconds(0))) {
    if (event.id == kDoorEvent) {
      accept_all();
      continue;
    }
    const auto unproven = std::find_if(unproven_.begin(), unproven_.end(),
                                       [&](const Unproven& candidate) { return candidate.id == event.id; });
    if (unproven == unproven_.end()) continue;
    switch (advance(*unproven)) {
      case Progress::Waits:
        break;
      case Progress::Ended:
        turn_away(unproven);
        break;
      case Progress::Proven:
        poller_.remove(unproven->fd.get(), unproven->id);
        guests.push_back(guest_of(*unproven));
        unproven_.erase(unproven);
        break;
    }
  }
  const auto now = Deadline::Clock::now();
  while (!unproven_.empty() && now - unproven_.front().since > limits_.handshake_timeout) turn_away(unproven_.begin());
  if (!accepting_ && (unproven_.size() < limits_.max_unproven || make_room())) pause(false);
  return guests;
}

PeerDoor::Guest PeerDoor::guest_of(Unproven& proven) {
  const auto keys = proven.handshake.keys();
  return {proven.handshake.name(), keys ? PeerStream(std::move(proven.fd), *keys) : PeerStream(std::move(proven.fd))};
}

void PeerDoor::accept_all() {
  for (;;) {
    if (unproven_.size() >= limits_.max_unproven && !make_room()) return pause(true);
    IpAddress from;
    from.length = sizeof(from.storage);
    UniqueFd fd(::accept4(listener_.fd.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if ((errno == EMFILE || errno == ENFILE) && !std::exchange(warned_about_files_, true)) {
        log_warning(
            "{}: no descriptors left for the connections of other ranks; raise the limit of open files (ulimit -n)",
            address().text());
      }
      // No descriptor or no memory: waiting connections stay in the kernel's queue.
      if (!make_room()) return pause(true);
      continue;
    }
    tune_connection(fd.get());
    const std::uint64_t id = next_id_++;
    if (!poller_.add(fd.get(), id)) continue;
    AcceptorHandshake handshake(key_, static_cast<std::uint32_t>(rank_), asks_for_encryption(from));
    unproven_.push_back({id, std::move(fd), from.text(), std::move(handshake), Deadline::Clock::now()});
  }
}

bool PeerDoor::make_room() {
  if (unproven_.empty()) return false;
  if (Deadline::Clock::now() - unproven_.front().since < limits_.min_unproven_age) return false;
  turn_away(unproven_.begin());
  return true;
}

void PeerDoor::pause(bool pauses) {
  if (accepting_ != pauses) return;
  accepting_ = !pauses;
  poller_.set_interest(listener_.fd.get(), kDoorEvent, accepting_, false);
}

PeerDoor::Progress PeerDoor::advance(Unproven& unproven) {
  std::array<char, AcceptorHandshake::kLongestMessage> block;
  while (!unproven.handshake.done()) {
    const ssize_t got = ::recv(unproven.fd.get(), block.data(), unproven.handshake.wanted_bytes(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::Waits;
    if (got <= 0) return Progress::Ended;
    unproven.spoke = true;
    const auto answer = unproven.handshake.take(std::string_view(block.data(), static_cast<std::size_t>(got)));
    if (!answer) return Progress::Ended;
    if (answer->empty()) continue;
    const ssize_t sent = ::send(unproven.fd.get(), answer->data(), answer->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(answer->size())) return Progress::Ended;
  }
  return Progress::Proven;
}

void PeerDoor::turn_away(std::list<Unproven>::iterator unproven) {
  // A rank that checks whether it reaches this one connects, and ends the connection without a byte.
  const bool looked_only = !unproven->spoke && Deadline::Clock::now() - unproven->since < limits_.min_unproven_age;
  if (!looked_only) {
    ++turned_away_;
    last_turned_away_ = unproven->address;
  }
  poller_.remove(unproven->fd.get(), unproven->id);
  unproven_.erase(unproven);
}

}  // namespace lockstep
