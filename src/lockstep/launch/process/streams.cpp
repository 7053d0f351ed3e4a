#include "lockstep/launch/process/streams.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/numbers.h"

namespace lockstep {
namespace {

Streams parse_which(const std::string& flag, const std::string& text) {
  const std::int64_t bits = parse_whole(flag, text, 0, 3);
  return {(bits & 1) != 0, (bits & 2) != 0};
}

std::size_t parse_local_rank(const std::string& flag, const std::string& text, int local_ranks) {
  return static_cast<std::size_t>(parse_whole(flag + " local rank", text, 0, local_ranks - 1));
}

}  // namespace

std::vector<Streams> parse_streams(const std::string& flag, const std::string& text, int local_ranks) {
  const auto count = static_cast<std::size_t>(local_ranks);
  if (text.find(':') == std::string::npos) return std::vector<Streams>(count, parse_which(flag, text));
  std::vector<Streams> streams(count);
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) {
      throw UsageError(fmt::format("{} is '{}'", flag, text), "command line",
                       "give 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all ranks, or RANK:WHICH,RANK:WHICH,...");
    }
    streams[parse_local_rank(flag, part.substr(0, colon), local_ranks)] = parse_which(flag, part.substr(colon + 1));
  }
  return streams;
}

std::vector<bool> parse_rank_filter(const std::string& flag, const std::string& text, int local_ranks) {
  const auto count = static_cast<std::size_t>(local_ranks);
  if (text.empty()) return std::vector<bool>(count, true);
  std::vector<bool> shown(count, false);
  for (const std::string& part : split(text, ',')) shown[parse_local_rank(flag, part, local_ranks)] = true;
  return shown;
}

}  // namespace lockstep
