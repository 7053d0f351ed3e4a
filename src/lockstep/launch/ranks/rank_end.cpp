#include "lockstep/launch/ranks/rank_end.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/failure_record.h"

namespace lockstep {
namespace {

constexpr std::uintmax_t kLargestErrorFileBytes = 1 << 20;

// What programs that record no cause write about a lost peer: the words of Gloo, NCCL, MPI and PyTorch.
constexpr std::array kBlame{"Connection closed by peer",
                            "Connection reset by peer",
                            "Broken pipe",
                            "Socket Timeout",
                            "Timed out waiting",
                            "Read error [",
                            "Write error [",
                            "ncclRemoteError",
                            "remote process exited"};

bool blames(const std::string& text) {
  return std::any_of(kBlame.begin(), kBlame.end(),
                     [&](const char* phrase) { return text.find(phrase) != std::string::npos; });
}

bool got_the_signal(const RankEnd& end) { return stopped_in_order(end) && blamed_by(end) == end.rank; }

// A smaller number means more blame.
int distance_from_cause(const RankEnd& end) {
  if (is_consequence(end)) return 4;
  if (stopped_in_order(end)) return got_the_signal(end) ? 2 : 3;
  const bool came_to_nothing = end.error.cause && (end.error.cause->kind == FailureCause::Kind::Timeout ||
                                                   end.error.cause->kind == FailureCause::Kind::Disagreement);
  return came_to_nothing ? 1 : 0;
}

bool failed(const RankEnd& end) { return !end.status.success() && !end.was_asked; }

bool had_reported_failure(const RankEnd& end) {
  if (end.error.cause && end.error.cause->is_consequence()) return false;  // whatever signal ended it then
  return end.was_asked && !end.status.success() && !end.error.message.empty() && distance_from_cause(end) == 0;
}

const RankEnd* end_of_blamed(const RankEnd& end, const std::vector<RankEnd>& ends) {
  const int rank = blamed_by(end);
  const auto found =
      std::find_if(ends.begin(), ends.end(), [&](const RankEnd& each) { return each.rank == rank && failed(each); });
  return found == ends.end() ? nullptr : &*found;
}

// Leads from a rank that another failure explains to the cause, as far as it is known here. Ranks that blame each other
// in a circle show no cause, so the one that ended first represents them.
const RankEnd* follow_blame(const RankEnd* end, const std::vector<RankEnd>& ends) {
  std::vector<const RankEnd*> path;
  while (is_consequence(*end)) {
    const auto seen = std::find(path.begin(), path.end(), end);
    if (seen != path.end()) return *std::min_element(seen, path.end());  // `ends` are in order of time
    path.push_back(end);
    const RankEnd* const next = end_of_blamed(*end, ends);
    if (next == nullptr) break;
    end = next;
  }
  return end;
}

}  // namespace

bool is_consequence(const RankEnd& end) {
  const bool gave_up = end.status.signal == 0 || end.status.signal == SIGABRT;  // an uncaught exception ends in abort()
  if (!gave_up) return false;
  if (end.error.cause) return end.error.cause->is_consequence();
  if (!end.error.message.empty()) return blames(end.error.message);
  return std::any_of(end.last_lines.begin(), end.last_lines.end(), blames);
}

bool is_usage_error(const RankEnd& end) {
  return failed(end) && end.error.cause && end.error.cause->kind == FailureCause::Kind::Usage;
}

bool stopped_in_order(const RankEnd& end) {
  if (end.warned_by != 0 && !end.error.cause && end.error.message.empty() && end.status.signal == 0) {
    const int signal = end.status.code - 128;
    return signal == end.warned_by || signal == SIGTERM || signal == SIGINT;
  }
  if (!end.error.cause || end.error.cause->kind != FailureCause::Kind::Stopped) return false;
  const bool left_itself =
      end.status.signal == 0 && (end.status.code == 128 + SIGTERM || end.status.code == 128 + SIGINT);
  return left_itself || (end.was_asked && end.status.signal == SIGTERM);
}

bool obeyed_warning(const RankEnd& end) { return end.warned_by != 0 && stopped_in_order(end); }

bool died_of_warning(const RankEnd& end) { return end.warned_by != 0 && end.status.signal == end.warned_by; }

const RankEnd* first_stop(const std::vector<RankEnd>& ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (end.status.success() || end.survived) continue;
    if (!stopped_in_order(end)) return nullptr;
    if (first == nullptr || (got_the_signal(end) && !got_the_signal(*first))) first = &end;
  }
  return first;
}

int stop_signal_of(const RankEnd& end) { return end.status.signal != 0 ? end.status.signal : end.status.code - 128; }

int blamed_by(const RankEnd& end) { return end.error.cause ? end.error.cause->rank : -1; }

const RankEnd* first_failure(const std::vector<RankEnd>& ends) {
  const auto nearest = [&](bool with_survived) {
    const RankEnd* first = nullptr;
    for (const RankEnd& end : ends) {
      if (!failed(end) || (end.survived && !with_survived)) continue;
      if (first == nullptr || distance_from_cause(end) < distance_from_cause(*first)) first = &end;
    }
    return first;
  };
  // A loss that the others survived counts only if nothing else explains their end.
  const RankEnd* first = nearest(false);
  if (first == nullptr || is_consequence(*first)) first = nearest(true);
  if (first == nullptr || !is_consequence(*first)) return first;
  const auto reported = std::find_if(ends.begin(), ends.end(), had_reported_failure);
  return reported != ends.end() ? &*reported : follow_blame(first, ends);
}

ErrorFile read_error_file(const std::string& path, pid_t pid) {
  std::error_code status;
  ErrorFile error;
  error.is_known = std::filesystem::exists(path + kKnownEnding, status);
  const std::uintmax_t size = std::filesystem::file_size(path, status);
  if (status || size == 0 || size > kLargestErrorFileBytes) return error;
  std::ifstream file(path);
  const nlohmann::json content = nlohmann::json::parse(file, nullptr, false);
  if (!content.is_object() || !content.contains("message")) return error;
  nlohmann::json message = content["message"];
  if (message.is_object() && message.contains("message")) message = message["message"];
  error.message = message.is_string() ? message.get<std::string>()
                                      : message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto ours = content.find("lockstep");
  if (ours == content.end() || !ours->is_object()) return error;
  const auto cause = ours->find("cause"), blames = ours->find("blames");
  if (cause == ours->end() || !cause->is_string()) return error;
  const auto kind = failure_kind(cause->get<std::string>());
  if (kind == FailureCause::Kind::Usage && ours->value("pid", nlohmann::json()) != nlohmann::json(pid)) {
    error.message.clear();
    return error;
  }
  if (kind) {
    error.cause = FailureCause{*kind, blames != ours->end() && blames->is_number_integer() ? blames->get<int>() : -1};
  }
  return error;
}

}  // namespace lockstep
