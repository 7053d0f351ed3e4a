#pragma once

namespace lockstep {

/// How to give a group more time, for the fix of errors.
constexpr const char* kRaiseTimeout =
    "raise the timeout: LOCKSTEP_TIMEOUT_S, lockstep run --timeout, or ProcessGroupOptions::timeout";
/// The same for the time that ranks have to meet and to connect.
constexpr const char* kRaiseJoinTimeout =
    "give the ranks more time to join: LOCKSTEP_JOIN_TIMEOUT_S, or ProcessGroupOptions::join_timeout";

}  // namespace lockstep
