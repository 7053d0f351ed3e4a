#include "lockstep/launch/elastic/host_standing.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace lockstep {
namespace {

bool is_announced(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

}  // namespace

void HostStanding::begin(const Generation& generation, int first, int local_ranks) {
  members_.clear();
  survival_files_.clear();
  for (int i = 0; i < local_ranks; ++i) members_.insert(first + i);
  ranks_ = {};
  ranks_.era = generation.era;
  ranks_.next_member = generation.next_member;
  ranks_.survive = ranks_.has_no_ranks = generation.first_member >= 0;  // they join those that do
}

void HostStanding::note_generation(const Generation& generation) {
  ranks_.next_member = std::max(ranks_.next_member, generation.next_member);
}

void HostStanding::note_survival() {
  ranks_.survive = true;
  ranks_.has_no_ranks = false;
}

void HostStanding::lose_ranks() {
  ranks_.survive = ranks_.has_no_ranks = true;
  survival_files_.clear();  // of lost ranks
}

int HostStanding::ask_for_member() {
  ++ranks_.asked;
  return ++ranks_.requests;
}

void HostStanding::take_grant(int member) {
  --ranks_.asked;
  if (member < 0) return;
  members_.insert(member);
  ranks_.next_member = std::max(ranks_.next_member, member + 1);
}

// Ranks announce it by files, which the event loop looks for now and then: what has happened to other hosts may be
// asked before its next look. Ranks that start together all must have announced it; of those that join others, one is
// enough for the host to have ranks that continue.
HostReport::Ranks HostStanding::now() {
  const auto begin = survival_files_.begin(), end = survival_files_.end();
  const bool one_is_enough = ranks_.has_no_ranks;
  if (begin != end && (one_is_enough ? std::any_of(begin, end, is_announced) : std::all_of(begin, end, is_announced))) {
    note_survival();
  }
  HostReport::Ranks ranks = ranks_;
  ranks.members.assign(members_.begin(), members_.end());
  return ranks;
}

}  // namespace lockstep
