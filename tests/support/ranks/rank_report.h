#pragma once

#include <functional>
#include <string>

#include "tests/support/ranks.h"

namespace lockstep {

/// Calls `body`: how it ended.
RankOutcome outcome_of(const std::function<void()>& body);
/// The same in a process of its own, where an expectation of gtest that fails meanwhile is a failure, too.
RankOutcome outcome_with_expectations(const std::function<void()>& body);

/// The outcome as text for another process, and back.
std::string report_of(const RankOutcome& end);
RankOutcome read_report(const std::string& report);

/// Makes this process rank `rank` of ranks on one host, which meet by `rendezvous` over the store at the address.
void set_rank_variables(int rank, int world_size, const std::string& store);

/// Throws the text of rank `first` of those that ended so, unless it is negative.
void throw_first_failure(const std::vector<RankOutcome>& ends, int first);

}  // namespace lockstep
