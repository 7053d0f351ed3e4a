#include "lockstep/launch/failure_report.h"

#include <fmt/format.h>

#include "lockstep/base/topology.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostOthers = 16;

std::string indented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n    | " + line;
  return text;
}

std::string tell_others(const std::vector<RankEnd>& ends, const RankEnd* first) {
  std::string text;
  std::size_t told = 0;
  for (const RankEnd& end : ends) {
    if (&end == first || told == kMostOthers) continue;
    ++told;
    const char* how = end.status.well() ? "had ended well" : end.was_asked ? "was ended by the launcher" : nullptr;
    text += fmt::format("\n  rank {}: {}", end.rank, how != nullptr ? how : "failed too, " + end.status.describe());
  }
  const std::size_t others = ends.size() - (first != nullptr ? 1 : 0);
  if (others > told) text += fmt::format("\n  and {} more ranks", others - told);
  return text;
}

}  // namespace

std::string tell_failure(const RankEnd& first) {
  std::string text = fmt::format("rank {} (local rank {}, pid {}) on {} failed first: {}", first.rank, first.local_rank,
                                 first.pid, host_name(), first.status.describe());
  if (!first.message.empty()) text += "\n  its message: " + first.message;
  if (!first.last_lines.empty()) text += "\n  its last lines on standard error:" + indented(first.last_lines);
  return text;
}

Error failure_report(const std::vector<RankEnd>& ends, const std::string& story, int restarts,
                     const std::string& log_path, bool out_of_memory) {
  const RankEnd* first = story.empty() ? first_failure(ends) : nullptr;
  std::string what = first != nullptr ? tell_failure(*first) : story;
  what += tell_others(ends, first);
  std::string where = "host " + host_name();
  if (restarts > 0) where += fmt::format(", after {} restart{}", restarts, restarts == 1 ? "" : "s");
  if (!log_path.empty()) where += ", logs in " + log_path;
  const std::string fix =
      first != nullptr ? advice_for(first->status, out_of_memory) : "see what the launcher of that node says";
  return Error(what, where, fix);
}

}  // namespace lockstep
