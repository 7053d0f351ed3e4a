#pragma once

#include <string>

#include "lockstep/launch/elastic/rules/job_state.h"

/// The rules of a job whose serving host was lost: whether the ranks of the hosts that come continue here, start again,
/// or end, because the job may run elsewhere.
namespace lockstep::takeover_rules {

/// A host of the job has come.
void resume(JobState& state, const HostReport& report, JobState::Time now);
/// What has happened on the host since it reported that it resumes, or just before.
void take_while_resuming(JobState& state, JobState::Host& host, const HostReport& report);
/// A host was lost while others are awaited.
void lose_while_resuming(JobState& state, const JobState::Host& lost, JobState::Time now);
/// Once all hosts are there that may come, or a quorum and the others have had time, the ranks continue, or those of
/// all hosts are started again.
void settle_if_complete(JobState& state, JobState::Time now);
JobState::Time next_time(const JobState& state);

/// This launcher, or one before it at this endpoint, was lost, and the job runs elsewhere, with more than half of its
/// hosts. What runs here would write the same files: ranks of a launcher that stood still while it was given up, or of
/// hosts that began here before they could be told.
void move_to(JobState& state, const std::string& address);
/// A host that was given up answers.
void take_back(JobState& state, const std::string& id);

}  // namespace lockstep::takeover_rules
