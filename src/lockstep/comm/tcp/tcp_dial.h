#pragma once

#include <array>
#include <functional>
#include <string>

#include "lockstep/net/peers/peer_handshake.h"

namespace lockstep {

/// The connections between two ranks.
constexpr std::uint32_t kMessageLane = 0;
constexpr std::uint32_t kGrantLane = 1;
constexpr std::uint32_t kPacketLane = 2;
constexpr std::uint32_t kLanes = 3;
using LaneStreams = std::array<PeerStream, kLanes>;

/// Connects all lanes to a rank, with new attempts while it is too busy to answer.
/// @param address  where it listens, a space, and its invitation (see peer_key)
/// @param name     the connection's, apart from the lane
/// @param watch    is given each socket that is about to be proven, and -1 once none is; returns false to give up
/// @throws Error  if the rank does not listen there, or another program does
LaneStreams dial_lanes(const std::string& address, const std::string& job_key, const std::string& group,
                       PeerConnectionName name, const std::function<bool(int fd)>& watch);

}  // namespace lockstep
