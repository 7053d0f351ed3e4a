#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/elastic/rules/job_state.h"

/// torchrun's rules for `--nnodes MIN:MAX`: when a generation begins, what ends it, and what becomes of a failure. They
/// know nothing of ranks that survive others.
namespace lockstep::restart_rules {

// The next generation.
void begin_if_complete(JobState& state, JobState::Time now);
/// Ends the ranks of all hosts, and waits until a generation can begin. @param has_time  nothing has failed
void gather_again(JobState& state, const std::string& why, bool has_time, JobState::Time now);
/// The same after a host was lost whose ranks the others need.
void gather_without(JobState& state, const std::string& loss, JobState::Time now);
/// A host was lost while others are awaited.
void lose_while_gathering(JobState& state, JobState::Time now);
/// Tells a host that all places are taken.
void send_wait(JobState& state, const JobState::Host& host);

// The running one.
void take_failure(JobState& state, const HostReport& report, JobState::Time now);
/// Starts the ranks again if restarts are left.
void fail(JobState& state, const std::string& story, JobState::Time now);
/// What a rank blamed a peer for is a failure once all hosts have answered.
void fail_if_all_answered(JobState& state, JobState::Time now);
void end_if_all_succeeded(JobState& state);

// Time.
/// A host that has not answered a probe in time, or null.
JobState::Host* silent_host(JobState& state, JobState::Time now);
std::string cause_of_silence(const JobState& state);
void act_on_time(JobState& state, JobState::Time now);
std::optional<JobState::Time> next_time(const JobState& state);

}  // namespace lockstep::restart_rules
