#pragma once

namespace lockstep {

/// How to give a group more time, for the `fix` of errors.
constexpr const char* kRaiseTimeout =
    "raise the timeout: LOCKSTEP_TIMEOUT_S, lockstep run --timeout, or ProcessGroupOptions::timeout";
/// How to give ranks more time to meet and to connect, for the `fix` of errors.
constexpr const char* kRaiseJoinTimeout =
    "give the ranks more time to join: LOCKSTEP_JOIN_TIMEOUT_S, or ProcessGroupOptions::join_timeout";

}  // namespace lockstep
