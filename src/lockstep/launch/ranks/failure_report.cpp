#include "lockstep/launch/ranks/failure_report.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "lockstep/base/processor/topology.h"
#include "lockstep/base/signals.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/launch/process/text_tail.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostOthers = 16;
constexpr std::size_t kMostMessageLines = 20;
constexpr std::size_t kMostOfALine = 1000;

// A rank's output may contain anything, but must be safe for a terminal.
std::string indented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n    | " + printable(line, kMostOfALine);
  return text;
}

// Without the stack that LibTorch adds.
std::vector<std::string> lines_of(const std::string& message) {
  TextTail tail;
  tail.feed(message);
  return tail.last_lines(kMostMessageLines);
}

// The message of an uncaught exception appears in both places.
bool contain_all_of(const std::vector<std::string>& lines, const std::vector<std::string>& message) {
  return std::all_of(message.begin(), message.end(), [&](const std::string& part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  });
}

// The message of the rank's error file, without the stack that LibTorch adds, and without empty lines.
std::vector<std::string> message_lines(const RankEnd& end) {
  std::vector<std::string> lines = lines_of(end.error.message);
  const auto is_blank = [](const std::string& line) { return line.find_first_not_of(" \t") == std::string::npos; };
  lines.erase(std::remove_if(lines.begin(), lines.end(), is_blank), lines.end());
  return lines;
}

std::string because(const RankEnd& end) {
  const bool is_consequence_by_record = end.error.cause && end.error.cause->is_consequence();
  if (!is_consequence_by_record || blamed_by(end) < 0) return "";
  return fmt::format(", since rank {} had failed", blamed_by(end));
}

bool was_ended_by_signal_of_launcher(const RankEnd& end) {
  return end.was_asked && (end.status.signal == SIGTERM || end.status.signal == SIGKILL);
}

// A rank that was asked to end may have failed by itself before. Its error file shows that, or an end that no signal of
// the launcher causes.
std::string how(const RankEnd& end) {
  const bool has_record = !end.error.message.empty();
  if (end.status.success()) return "had ended well";
  if (stopped_in_order(end)) return "stopped in order, " + end.status.describe();
  if (was_ended_by_signal_of_launcher(end)) {
    return has_record ? "had failed too" + because(end) + ", and was then ended by the launcher"
                      : "was ended by the launcher";
  }
  if (end.was_asked && !has_record && end.status.signal == 0) {
    return fmt::format("ended when the launcher asked it to, {}", end.status.describe());
  }
  return "failed too, " + end.status.describe() + because(end);
}

// As `how`, of the rank on which the report is.
std::string how_first(const RankEnd& first) {
  if (obeyed_warning(first)) {
    return fmt::format("stopped in order upon {}, which the launcher had passed on: {}", signal_name(first.warned_by),
                       first.status.describe());
  }
  if (stopped_in_order(first)) {
    const bool got_the_signal = blamed_by(first) == first.rank;
    return (got_the_signal ? "was asked to end by a signal, and stopped in order: "
                           : "stopped in order, because a signal asked another rank to end: ") +
           first.status.describe();
  }
  return "failed first: " + (was_ended_by_signal_of_launcher(first)
                                 ? "it had reported a failure, and was then ended by the launcher"
                                 : first.status.describe());
}

// The ranks of a job are started with the same words. The launcher may have ended one that had refused them.
bool refused_the_same(const RankEnd& end, const RankEnd* first) {
  return first != nullptr && is_usage_error(*first) && end.error.cause == first->error.cause &&
         end.error.message == first->error.message;
}

std::string describe_others(const std::vector<RankEnd>& ends, const RankEnd* first) {
  std::string text;
  std::size_t named = 0, others = 0, alike = 0;
  for (const RankEnd& end : ends) {
    if (&end == first) continue;
    if (refused_the_same(end, first)) {
      ++alike;
      continue;
    }
    if (++others > kMostOthers) continue;
    ++named;
    text += fmt::format("\n  rank {}: {}", end.rank, how(end));
  }
  if (alike > 0) text = fmt::format("\n  so did {} more rank{}", alike, alike == 1 ? "" : "s") + text;
  if (others > named) text += fmt::format("\n  and {} more ranks", others - named);
  return text;
}

bool gave_up_by_itself(const ExitStatus& status) {
  constexpr int kFirstCodeOfAShell = 126;
  return status.signal == SIGABRT || (status.signal == 0 && status.code < kFirstCodeOfAShell);
}

std::string advice_after(const RankEnd& first, bool out_of_memory) {
  if (obeyed_warning(first)) return "nothing has failed: start the job again to continue it";
  if (stopped_in_order(first)) {
    return "nothing has failed: start the job again to continue it. To end a job, signal the launcher: it ends all "
           "ranks, and starts none again";
  }
  if (died_of_warning(first)) {
    return "the launcher had passed on a batch system's warning, which the program does not handle: a Trainer saves "
           "upon "
           "it and stops; another program may catch it, save, and exit with code 143";
  }
  if (is_usage_error(first)) return "correct what its message names, and start the job again";
  const bool gave_up = gave_up_by_itself(first.status);
  const bool has_lines = !first.last_lines.empty();
  if (!message_lines(first).empty() && (first.was_asked || first.status.signal == SIGABRT || (gave_up && !has_lines))) {
    return "it gave up by itself: its message gives the reason";
  }
  return advice_for(first.status, out_of_memory, has_lines);
}

// `text`, which says who has ended and how, with what the rank has said.
std::string with_message(std::string text, const RankEnd& first) {
  if (is_usage_error(first)) text += ". It refused what it was started with, and would refuse it again";
  const std::vector<std::string> message = message_lines(first);
  const bool message_says_it = stopped_in_order(first) || (is_usage_error(first) && !message.empty());
  const bool has_lines = !first.last_lines.empty() && !message_says_it;
  if (message.size() == 1) text += "\n  its message: " + printable(message.front(), kMostOfALine);
  if (message.size() > 1 && !(has_lines && contain_all_of(first.last_lines, message))) {
    text += "\n  its message:" + indented(message);
  }
  if (has_lines) text += "\n  its last lines on standard error:" + indented(first.last_lines);
  return text;
}

}  // namespace

std::string describe_failure(const RankEnd& first) {
  const std::string who =
      fmt::format("rank {} (local rank {}, pid {}) on {}", first.rank, first.local_rank, first.pid, host_name());
  return with_message(who + " " + how_first(first), first);
}

std::string describe_end(const RankEnd& end) {
  return is_usage_error(end) ? with_message(end.status.describe(), end) : end.status.describe();
}

Error failure_report(const std::vector<RankEnd>& ends, const std::string& story, int restarts,
                     const std::string& log_path, bool out_of_memory) {
  const RankEnd* first = story.empty() ? first_failure(ends) : nullptr;
  std::string what = first != nullptr ? describe_failure(*first) : story;
  what += describe_others(ends, first);
  std::string where = "host " + host_name();
  if (restarts > 0) where += fmt::format(", after {} restart{}", restarts, restarts == 1 ? "" : "s");
  if (!log_path.empty()) where += ", logs in " + log_path;
  const std::string fix =
      first != nullptr ? advice_after(*first, out_of_memory) : "read the output of that node's launcher";
  return Error(what, where, fix);
}

}  // namespace lockstep
