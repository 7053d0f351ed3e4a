#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/detail/net/membership.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {

/// The requests of a client. A request is: operation (8 bits), number of the request (64 bits), fields.
enum class StoreOperation : std::uint8_t {
  Set = 1,
  Get = 2,
  TryGet = 3,
  Add = 4,
  CompareSet = 5,
  Delete = 6,
  Wait = 7,
  NumKeys = 8,
  LostRanks = 9,
  Join = 10,
  Leave = 11,
  Heartbeat = 12,  ///< answered unless its number is 0
  Cancel = 13,     ///< has no answer of its own; the request that it names is answered at once
  Push = 14,
  Will = 15,
  TryGetAll = 16,
  Enter = 17
};

/// How a request ended. An answer is: number of the request (64 bits), status (8 bits), fields. For Failed and TimedOut
/// the fields are what happened and how to fix it.
enum class StoreStatus : std::uint8_t { Ok = 0, Failed = 1, TimedOut = 2 };

constexpr int kMaxWorldSize = 16384;
constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxHostIdBytes = 127;
constexpr std::size_t kMaxKeysPerWait = 65536;
constexpr std::size_t kMostAnsweredAtOnceBytes = std::size_t{4} << 20;  ///< of values requested together
constexpr std::size_t kMaxWaitsPerClient = 4096;                        ///< of one connection at a time
constexpr std::size_t kMaxMessageBytes = 65536;                         ///< of an error's text

void write_peer(WireWriter& message, const Peer& peer);
Peer read_peer(WireReader& message);

/// "rank 1 (process 4711 on host-a)"
std::string describe(const Peer& peer);

}  // namespace lockstep
