#include "lockstep/trace/job_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/trace/chrome_trace.h"
#include "lockstep/trace/trace_parts.h"
#include "lockstep/trace/trace_watch.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kAgreement{30};
constexpr std::chrono::seconds kPatienceForParts{20};
constexpr std::chrono::milliseconds kPatienceAfterFailure{400};  // a launcher sends SIGKILL after 900 ms

std::string problem_with(const std::string& file) {
  try {
    const AtomicFile probe(file);
    return "";
  } catch (const Error& error) {
    return error.happened();
  }
}

std::string cut_off_text(TraceEnd end, std::int64_t steps) {
  switch (end) {
    case TraceEnd::Failure:
      return fmt::format("its trace ends in step {}, because a collective failed", steps);
    case TraceEnd::Signal:
      return fmt::format("its trace ends in step {}, because SIGTERM arrived", steps);
    default:
      return "";
  }
}

// "trace.json" of rank 3 alone is "trace.rank3.json".
std::string file_of_rank(const std::string& file, int rank) {
  const std::size_t slash = file.rfind('/');
  const std::size_t dot = file.rfind('.');
  const std::string mark = fmt::format(".rank{}", rank);
  if (dot == std::string::npos || dot == 0 || (slash != std::string::npos && dot <= slash + 1)) return file + mark;
  return file.substr(0, dot) + mark + file.substr(dot);
}

}  // namespace

class JobTrace::Implementation {
 public:
  Implementation(std::string file, TraceWindow window, std::optional<Membership> membership, TraceNames names)
      : file_(std::move(file)), window_(window), membership_(std::move(membership)), names_(names) {
    if (window_.first < 1 || window_.last < window_.first) {
      throw Error(fmt::format("a trace of steps {} to {}", window_.first, window_.last), "trace",
                  "count steps from 1, and name the first and the last one");
    }
    if (is_taken().exchange(true)) {
      throw Error("this process is already tracing", "trace", "finish the first trace, or unset LOCKSTEP_TRACE");
    }
    try {
      meet();
      watch_ = std::make_unique<TraceWatch>([this](TraceEnd end) { end_in_background(end); });
    } catch (...) {
      is_taken() = false;
      throw;
    }
    end_at_exit(this);
    trace_recorder::start(window_, [this] { watch_->notify(TraceEnd::Window); });
  }

  ~Implementation() {
    end_at_exit(nullptr);
    watch_.reset();
    const std::lock_guard<std::mutex> lock(mutex_);
    trace_recorder::stop();
    if (!has_ended_) log_warning("trace: {} is not written, because the trace was not finished", file_);
    is_taken() = false;
  }

  std::string finish(TraceEnd end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!has_ended_) {
      has_ended_ = true;
      try {
        write(end);
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    if (failure_) std::rethrow_exception(failure_);
    return summary_;
  }

 private:
  static std::atomic<bool>& is_taken() {
    static std::atomic<bool> value{false};
    return value;
  }

  // A program that ends without a call still gets its file.
  static void end_at_exit(Implementation* trace) {
    static std::atomic<Implementation*> present{nullptr};
    static const bool is_registered = std::atexit([] {
                                        Implementation* const left = present.exchange(nullptr);
                                        if (left != nullptr) left->end_in_background(TraceEnd::Finished);
                                      }) == 0;
    if (is_registered) present = trace;
  }

  void meet() {
    const bool writes = !membership_ || membership_->rank == 0;
    const std::string problem = writes ? problem_with(file_) : "";
    if (!membership_) {
      if (!problem.empty()) throw Error("the trace cannot be written: " + problem, "trace", "name another file");
      return;
    }
    static std::atomic<int> number{0};
    const std::string prefix = fmt::format("trace/{}", ++number);
    parts_.emplace(*membership_, prefix);
    const Deadline deadline = Deadline::after(kAgreement);
    parts_->agree(fmt::format("steps {} to {}", window_.first, window_.last), problem, deadline);
    clock_ = align_clock(*membership_, prefix + "/clock", deadline);
  }

  void end_in_background(TraceEnd end) noexcept {
    try {
      finish(end);
    } catch (const std::exception& error) {
      log_warning("trace: {}", error.what());
    }
  }

  void write(TraceEnd end) {
    RankTrace mine;
    mine.rank = membership_ ? membership_->rank : 0;
    mine.host = membership_ ? membership_->self().host : host_name();
    mine.clock = clock_;
    mine.record = trace_recorder::stop();
    mine.cut_off = cut_off_text(end, mine.record.steps);
    if (!parts_) return write_file(file_, {{mine}, {}});
    TraceParts::Collected all;
    try {
      parts_->send(mine);
      if (parts_->writer() != mine.rank) return;
      const bool has_failed = end == TraceEnd::Failure || end == TraceEnd::Signal;
      all = parts_->collect(has_failed ? std::chrono::milliseconds(kPatienceAfterFailure) : kPatienceForParts);
    } catch (const Error& error) {
      const std::string file = file_of_rank(file_, mine.rank);
      log_warning("trace: the ranks' parts cannot be merged, so this rank writes its own to {}: {}", file,
                  error.happened());
      return write_file(file, {{mine}, {"one rank's part: " + error.happened()}});
    }
    write_file(file_, std::move(all));
  }

  void write_file(const std::string& file, TraceParts::Collected all) {
    TraceNotes notes;
    notes.world_size = membership_ ? membership_->world_size : 1;
    notes.window = window_;
    notes.names = names_;
    notes.missing = std::move(all.missing);
    const JobTimeline timeline(std::move(all.parts));
    const TraceSummary summary = summarise(timeline);
    write_file_atomically(file, chrome_trace_of(timeline, summary, notes));
    std::vector<std::string> lines = summary.lines();
    for (const std::string& each : notes.missing) lines.push_back("incomplete: " + each);
    for (const RankTrace& rank : timeline.ranks()) {
      if (rank.record.dropped == 0) continue;
      lines.push_back(fmt::format("rank {} dropped {} events: trace fewer steps", rank.rank, rank.record.dropped));
    }
    lines.push_back("trace written: " + file);
    summary_ = fmt::format("{}", fmt::join(lines, "\n"));
    log_info("{}", lines.back());
  }

  const std::string file_;
  const TraceWindow window_;
  const std::optional<Membership> membership_;  // nothing: this process is alone
  const TraceNames names_;
  std::optional<TraceParts> parts_;
  ClockOffset clock_;
  std::mutex mutex_;  // guards what follows
  bool has_ended_ = false;
  std::exception_ptr failure_;
  std::string summary_;
  std::unique_ptr<TraceWatch> watch_;
};

JobTrace::JobTrace(const std::string& file, const TraceWindow& window, const std::optional<Membership>& membership,
                   const TraceNames& names)
    : implementation_(std::make_unique<Implementation>(
          file, window, membership && membership->world_size > 1 ? membership : std::nullopt, names)) {}
JobTrace::~JobTrace() = default;

std::string JobTrace::finish() { return implementation_->finish(TraceEnd::Finished); }

}  // namespace lockstep
