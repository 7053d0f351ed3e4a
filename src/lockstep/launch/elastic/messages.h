#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/launch/nodes/host_entry.h"

namespace lockstep {

/// What a host tells the coordinator.
struct HostReport {
  enum class Kind {
    Joins,    ///< with `entry`
    Ready,    ///< none of its ranks runs any more: a new world may begin
    Failed,   ///< one of its ranks did: `text` tells how
    Well,     ///< all its ranks have ended well
    Answers,  ///< a probe
    Leaves,   ///< for good: `text` says why
    Lost      ///< said in its place, by the store: `text` is the cause
  };
  Kind kind = Kind::Joins;
  std::string host;             ///< id of the host
  std::int64_t generation = 0;  ///< of the world that it speaks of
  std::string text;
  bool blames_a_peer = false;  ///< of Failed: the rank said that it had lost another one
  HostEntry entry;
};

/// A world that begins.
struct World {
  struct Host {
    std::string id;
    std::string name;
    int local_ranks = 1;
  };
  std::int64_t generation = 0;  ///< how many worlds there were before; grows with each, whatever the reason
  int restarts = 0;             ///< after failures alone
  std::vector<Host> hosts;      ///< by node rank; the first is the one that serves
  std::uint16_t master_port = 0;
};

/// What the coordinator tells a host.
struct HostOrder {
  enum class Kind {
    Wait,    ///< `text` says for what, `time_left` for how long at most
    Begin,   ///< start the ranks of `world`
    Stop,    ///< end the ranks, and say Ready: `text` says why
    Probe,   ///< answer
    Rejoin,  ///< end the ranks, and join anew: the host was taken for lost
    Refuse,  ///< it cannot join: `text` says why, `fix` what to do
    End      ///< the job is over: well, or as `text` tells
  };
  Kind kind = Kind::Wait;
  std::string text;
  std::string fix;
  bool well = false;                       ///< of End
  bool has_time = false;                   ///< of Stop: nothing has failed, the ranks may save what they have
  std::chrono::milliseconds time_left{0};  ///< of Wait
  World world;
};

HostOrder order_to(HostOrder::Kind kind, const std::string& text = {}, const std::string& fix = {});

std::string to_text(const HostReport& report);
std::string to_text(const HostOrder& order);
/// @throws Error  if `text` is no such message
HostReport parse_report(const std::string& text);
HostOrder parse_order(const std::string& text);

/// The start of a Lost report, which the store completes by the cause.
std::string lost_report(const std::string& host);

}  // namespace lockstep
