#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/elastic/rules/job_state.h"

/// The rules for ranks that survive the loss of others: whether they continue, whom to ask before that is decided, and
/// what they get. Where they do not continue, `restart_rules` decide.
namespace lockstep::survival_rules {

/// Whether the ranks that are left continue by themselves.
bool survive(const JobState& state);

// Hosts are asked before a report is taken whose meaning depends on what they have not reported.
bool must_ask_before(const JobState& state, const HostReport& report);
void ask_before(JobState& state, const HostReport& report);
/// Notes a report that comes while hosts are asked. @return  true if the deferred reports are to be taken now
bool defer(JobState& state, const HostReport& report, JobState::Time now);
/// The reports that came while hosts were asked, in the order in which they are to be taken. The ranks run again.
std::vector<HostReport> take_deferred(JobState& state);

// What has happened to hosts and ranks.
void continue_without(JobState& state, const JobState::Host& lost, const std::string& loss);
/// The host has lost its last rank that survives others.
void lose_ranks(JobState& state, JobState::Host& host, const std::string& story, JobState::Time now);
/// Answers a host that asks for a process in a lost one's place.
void grant_member(JobState& state, JobState::Host& host);
/// Lets a host's ranks join those that run.
void admit_host(JobState& state, JobState::Host& host);
void admit_who_waits(JobState& state);

}  // namespace lockstep::survival_rules
