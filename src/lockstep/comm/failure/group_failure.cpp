#include "lockstep/comm/failure/group_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/timeout_texts.h"

namespace lockstep {
namespace {

using Kind = GroupFailure::Kind;

constexpr char kSeparator = '\x1f';
constexpr std::size_t kFields = 5;
constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kNamedPerCall = 4;

std::string in_parentheses(const std::string& text) { return text.empty() ? "" : " (" + text + ")"; }

std::string with_space(const std::string& text) { return text.empty() ? "" : text + " "; }

std::string log_of(int rank) { return rank < 0 ? "that rank's log" : fmt::format("the log of rank {}", rank); }

std::string logs_of(const LateRanks& late) {
  if (late.empty()) return "the ranks' logs";
  std::string ranks;
  for (std::size_t i = 0; i < late.size() && i < kMostNamedRanks; ++i) {
    ranks += fmt::format("{}{}", i == 0 ? "" : ", ", late[i].rank.in_job);
  }
  return fmt::format("the log{} of rank{} {}", late.size() == 1 ? "" : "s", late.size() == 1 ? "" : "s", ranks);
}

GroupFailure late_failure(const std::string& operation, double waited_s, const LateRanks& late, const std::string& who,
                          const char* raise) {
  return {Kind::Timeout, fmt::format("{} timed out after {:.1f} s: {}", operation, waited_s, who),
          fmt::format("read {}; if it is only slow, {}", logs_of(late), raise), blamed_rank(late)};
}

// "rank 0 on a, rank 1 on a and 3 more call X"
std::string side(const std::vector<std::string>& ranks, const std::string& call) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kNamedPerCall; ++i) text += (i == 0 ? "" : ", ") + ranks[i];
  if (ranks.size() > kNamedPerCall) text += fmt::format(" and {} more", ranks.size() - kNamedPerCall);
  return fmt::format("{} {} {}", text, ranks.size() == 1 ? "calls" : "call", call);
}

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

int rank_in(const std::string& text) { return std::max(number_in<int>(text).value_or(-1), -1); }

std::vector<std::string> fields_of(const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == kSeparator) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace

GroupFailure GroupFailure::rank_lost(const std::string& operation, const NamedRank& rank, const std::string& cause,
                                     const std::string& seen) {
  return {Kind::Lost, fmt::format("{}lost {}: {}{}", with_space(operation), rank.name, cause, in_parentheses(seen)),
          fmt::format("read {}, which failed first; build a new group, or restart the job", log_of(rank.in_job)),
          rank.in_job};
}

GroupFailure GroupFailure::connection_lost(const std::string& operation, const std::vector<NamedRank>& ranks,
                                           const std::string& detail) {
  std::string names;
  for (const NamedRank& rank : ranks) names += (names.empty() ? "" : ", ") + rank.name;
  return {Kind::Lost,
          fmt::format("{}lost the connection to {}{}", with_space(operation), names, in_parentheses(detail)),
          "it ended, or left the group in the middle of an operation: read its log, and check that all ranks make the "
          "same number of calls",
          ranks.empty() ? -1 : ranks.front().in_job};
}

GroupFailure GroupFailure::rank_left(const std::string& operation, const NamedRank& rank, const std::string& seen) {
  return {
      Kind::Left, fmt::format("{} left the group before {}{}", rank.name, operation, in_parentheses(seen)),
      fmt::format("make the same number of calls on every rank: a loop that ends earlier on one of them, such as one "
                  "over fewer batches, leaves the others waiting; if it failed, {} has the reason",
                  log_of(rank.in_job)),
      rank.in_job};
}

GroupFailure GroupFailure::timed_out(const std::string& operation, double waited_s, const LateRanks& late,
                                     bool over_network) {
  return late_failure(operation, waited_s, late, describe(late, over_network), kRaiseTimeout);
}

GroupFailure GroupFailure::start_timed_out(const std::string& operation, double waited_s, const LateRanks& late) {
  GroupFailure failure =
      late_failure(operation, waited_s, late, describe(late, /*over_network=*/true), kRaiseJoinTimeout);
  failure.fix += "; every rank must create the same groups in the same order";
  return failure;
}

GroupFailure GroupFailure::timed_out_without_store(const std::string& operation, const std::string& problem) {
  return {Kind::Timeout,
          fmt::format("{} timed out, and the store does not answer{}: the process that serves it (rank 0, or the "
                      "launcher) has stopped or is unreachable",
                      operation.empty() ? "the operation" : operation, in_parentheses(problem)),
          fmt::format("look at that process; if it is only slow, {}", kRaiseTimeout)};
}

GroupFailure GroupFailure::disagreement(const std::vector<RankCall>& calls) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sides;  // in the order of their first ranks
  for (const RankCall& each : calls) {
    auto found = std::find_if(sides.begin(), sides.end(), [&](const auto& known) { return known.first == each.call; });
    if (found == sides.end()) found = sides.insert(sides.end(), {each.call, {}});
    found->second.push_back(each.rank);
  }
  std::string text;
  for (const auto& [call, ranks] : sides) text += (text.empty() ? "" : "; ") + side(ranks, call);
  return {Kind::Disagreement, "the ranks disagree: " + text,
          "make the same calls, with the same sizes and dtypes, in the same order on every rank"};
}

GroupFailure GroupFailure::aborted(const NamedRank& rank, const std::string& reason) {
  return {Kind::Aborted, fmt::format("{} ended the group: {}", rank.name, reason),
          fmt::format("read {}; build a new group, or end the job", log_of(rank.in_job)), rank.in_job};
}

GroupFailure GroupFailure::engine_failed(const NamedRank& rank, const std::string& problem, const std::string& fix) {
  return {Kind::Aborted, fmt::format("{} ended the group: {}", rank.name, problem), fix, rank.in_job};
}

GroupFailure GroupFailure::engine_lost(const NamedRank& rank, const std::string& problem, const std::string& fix) {
  return {Kind::Lost, fmt::format("{} lost its connection to another rank: {}", rank.name, problem),
          "read the logs of all ranks, and of their hosts; " + fix};
}

GroupFailure GroupFailure::part_failed(const std::string& problem) {
  return {Kind::Lost, problem, "read the other ranks' logs too"};
}

GroupFailure GroupFailure::unexplained(const std::string& detail) {
  return {Kind::Lost, fmt::format("the connections of this group ended ({})", detail), "read the other ranks' logs"};
}

void GroupFailure::raise(int rank) const {
  // An aborted group's text names the rank by itself.
  const bool tells_finder = kind != Kind::Aborted && found_by >= 0 && found_by != rank;
  const std::string text = tells_finder ? fmt::format("{} (found by rank {})", happened, found_by) : happened;
  if (kind == Kind::Timeout) throw_caused(TimeoutError(text, "this group", fix), cause());
  throw_caused(Error(text, "this group", fix), cause());
}

FailureCause GroupFailure::cause() const {
  switch (kind) {
    case Kind::Timeout:
      return {FailureCause::Kind::Timeout, blamed};
    case Kind::Disagreement:
      return {FailureCause::Kind::Disagreement, -1};
    case Kind::Aborted:
      return {FailureCause::Kind::AbortedByPeer, blamed};
    case Kind::Left:
      return {FailureCause::Kind::PeerLeft, blamed};
    case Kind::Lost:
      break;
  }
  return {FailureCause::Kind::LostPeer, blamed};
}

std::string GroupFailure::encode() const {
  std::string what = happened, advice = fix;  // a program's own reason for abort may hold any byte
  std::replace(what.begin(), what.end(), kSeparator, ' ');
  std::replace(advice.begin(), advice.end(), kSeparator, ' ');
  return fmt::format("{1}{0}{2}{0}{3}{0}{4}{0}{5}", kSeparator, static_cast<std::uint32_t>(kind), blamed, found_by,
                     what, advice);
}

GroupFailure GroupFailure::decode(const std::string& text) {
  const std::vector<std::string> fields = fields_of(text);
  const auto kind = number_in<std::uint32_t>(fields[0]);
  if (fields.size() != kFields || !kind || *kind < static_cast<std::uint32_t>(Kind::Lost) ||
      *kind > static_cast<std::uint32_t>(Kind::Aborted)) {
    return {Kind::Lost, "another rank ended the group", "read the other ranks' logs"};
  }
  return {static_cast<Kind>(*kind), fields[3].substr(0, kLongestText), fields[4].substr(0, kLongestText),
          rank_in(fields[1]), rank_in(fields[2])};
}

}  // namespace lockstep
