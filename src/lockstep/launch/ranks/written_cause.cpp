#include "lockstep/launch/ranks/written_cause.h"

#include <algorithm>
#include <charconv>
#include <regex>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

using Kind = FailureCause::Kind;

constexpr std::string_view kWhere = "  where: ", kFix = "  fix: ";

// "rank 2 on host-a (process 4711)" or "rank 0 (4 of the job) on host-a". The numbers are captured.
const std::string kRank = R"(rank ([0-9]+)(?: \(([0-9]+) of the job\))? on [^ ]+(?: \(process [0-9]+\))?)";

// What the constructors of GroupFailure (comm) write. tests/e2e/launcher/attribution_test.cpp holds them together.
const std::vector<std::pair<std::regex, Kind>>& phrases() {
  static const std::vector<std::pair<std::regex, Kind>> all{
      {std::regex("lost " + kRank + ": "), Kind::LostPeer},
      {std::regex("lost the connection to " + kRank), Kind::LostPeer},
      {std::regex(kRank + " left the group before "), Kind::PeerLeft},
      {std::regex(kRank + " ended the group: "), Kind::AbortedByPeer},
      {std::regex("timed out after [0-9.]+ s: " + kRank), Kind::Timeout},
      {std::regex("the ranks disagree: "), Kind::Disagreement}};
  return all;
}

bool starts_with(const std::string& line, std::string_view start) { return line.compare(0, start.size(), start) == 0; }

int rank_in(const std::smatch& match) {
  int rank = -1;
  for (std::size_t i = 1; i < match.size(); ++i) {  // the number in the job comes last
    const std::string digits = match[i].str();
    std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  }
  return rank;
}

}  // namespace

std::optional<FailureCause> cause_in_text(const std::vector<std::string>& lines) {
  const auto is_where = [](const std::string& line) { return starts_with(line, kWhere); };
  const auto where = std::find_if(lines.rbegin(), lines.rend(), is_where);
  if (where == lines.rend()) return std::nullopt;
  // What happened may take several lines; an Error before it ends with its fix.
  for (auto line = std::next(where); line != lines.rend() && !starts_with(*line, kFix); ++line) {
    for (const auto& [phrase, kind] : phrases()) {
      std::smatch match;
      if (!std::regex_search(*line, match, phrase)) continue;
      return FailureCause{kind, kind == Kind::Disagreement ? -1 : rank_in(match)};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
