#include "lockstep/comm/tcp/tcp_dial.h"

#include <chrono>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/sockets/socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Strangers can fill the queue of the listener, so that an attempt ends without an answer.
constexpr milliseconds kLongestDial{5000};
constexpr milliseconds kBetweenDials{20};

PeerStream dial_lane(const SocketAddress& where, const std::string& key, const PeerConnectionName& name,
                     const std::function<bool(int fd)>& watch) {
  for (;; std::this_thread::sleep_for(kBetweenDials)) {
    if (!watch(-1)) throw Error("gave up", where.text(), "see why the group broke");
    const Deadline attempt = Deadline::after(kLongestDial);
    Connected connected = connect_once(where, false, attempt);
    if (!connected.fd && attempt.passed()) continue;
    if (!connected.fd) throw Error("cannot connect: " + connected.failure, where.text(), "see that rank's log");
    tune_connection(connected.fd.get());
    if (!watch(connected.fd.get())) throw Error("gave up", where.text(), "see why the group broke");
    const Dialed dialed = prove_to_peer(connected.fd.get(), key, name, attempt);
    watch(-1);
    if (dialed.outcome == DialOutcome::Proven) {
      return dialed.keys ? PeerStream(std::move(connected.fd), *dialed.keys) : PeerStream(std::move(connected.fd));
    }
    if (dialed.outcome == DialOutcome::Impostor) {
      throw Error("another program answers there, which does not know the job's secret", where.text(),
                  "see which program listens at this address");
    }
  }
}

}  // namespace

LaneStreams dial_lanes(const std::string& address, const std::string& job_key, const std::string& group,
                       PeerConnectionName name, const std::function<bool(int fd)>& watch) {
  const std::size_t space = address.find(' ');
  if (space == std::string::npos) {
    throw Error("the address that the rank left in the store is not readable", address,
                "run the same build of the program on every rank");
  }
  const SocketAddress where = SocketAddress::parse(address.substr(0, space));
  const std::string key = peer_key(job_key, group, address.substr(space + 1));
  LaneStreams streams;
  for (name.lane = 0; name.lane < kLanes; ++name.lane) streams[name.lane] = dial_lane(where, key, name, watch);
  return streams;
}

}  // namespace lockstep
