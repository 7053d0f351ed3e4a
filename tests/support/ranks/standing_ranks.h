#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "lockstep/detail/net/membership.h"
#include "tests/support/ranks.h"

namespace lockstep {

/// A function and its argument, as bytes that another process of this program can call.
struct StandingCall {
  void (*function)(const Membership&, const std::byte* argument) = nullptr;
  std::array<std::byte, 64> argument{};
};

template <typename Body>
StandingCall standing_call(const Body& body) {
  static_assert(std::is_trivially_copyable_v<Body>, "a body of standing ranks is sent as bytes: it may own nothing");
  static_assert(sizeof(Body) <= sizeof(StandingCall::argument),
                "a body of standing ranks captures a few values at most");
  StandingCall call;
  std::memcpy(call.argument.data(), &body, sizeof(body));
  call.function = [](const Membership& membership, const std::byte* argument) {
    alignas(Body) std::array<std::byte, sizeof(Body)> copy;
    std::memcpy(copy.data(), argument, sizeof(Body));
    (*reinterpret_cast<const Body*>(copy.data()))(membership);
  };
  return call;
}

std::vector<RankOutcome> call_standing_ranks(int world_size, const StandingCall& call, const RanksOptions& options);
void call_standing_ranks_or_throw(int world_size, const StandingCall& call, const RanksOptions& options);

/// Runs `body` on `world_size` ranks, as `ranks_as_processes` does, but in processes that are forked once, for the
/// first test that asks for so many, and live until the program ends: forking a process that has LibTorch takes longer
/// than most bodies. Every body gets a membership of its own, with keys of its own, and forms its own group.
///
/// The processes were forked during an earlier test. So `body` is sent to them as bytes: it may capture values, but no
/// references, no pointers except to functions and constants, and nothing that owns memory. If a rank fails, all of
/// them are ended, and the next call forks new ones; so it does once a variable LOCKSTEP_* has changed. The options
/// `heartbeat_timeout` and `prepare` are ignored: bodies that stop or kill their process belong into
/// `ranks_as_processes`.
template <typename Body>
std::vector<RankOutcome> standing_ranks(int world_size, const Body& body, const RanksOptions& options = {}) {
  return call_standing_ranks(world_size, standing_call(body), options);
}

/// The same for bodies that must not fail: throws the text of the first rank that did, with its rank.
template <typename Body>
void run_standing_ranks(int world_size, const Body& body, const RanksOptions& options = {}) {
  call_standing_ranks_or_throw(world_size, standing_call(body), options);
}

}  // namespace lockstep
