#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

constexpr const char* kDefaultTraceSteps = "3-12";

/// Which steps are traced, and where to.
struct TraceOptions {
  std::string file;             ///< that rank 0 writes, on its host
  std::int64_t first_step = 3;  ///< counted from 1, after the trace was begun
  std::int64_t last_step = 12;  ///< this step is traced, too
};

/// Records some steps of all ranks, and writes them as one file in Chrome's trace event format, for ui.perfetto.dev.
///
///     lockstep::init_process_group();
///     lockstep::Trace trace({"trace.json", 10, 20});
///     ... the training ...
///     std::string summary = trace.finish();
///
/// A step ends with a synchronised backward of DistributedDataParallel and what follows it, until the next batch of a
/// DataLoader or the next forward. Recorded are: batches that DataLoader gives, forward and backward, each bucket of
/// gradients, blocking collectives, and steps of Lockstep's optimizers. Times of all ranks are in the time of rank 0's
/// host (see docs/reference/trace.md).
///
/// init_process_group begins one by itself if LOCKSTEP_TRACE names a file; `lockstep run --trace` sets it.
class Trace {
 public:
  /// Collective over the default group, if there is one; else for this process alone.
  /// @throws Error  if the file cannot be written, the steps are not 1 <= first <= last, or the process traces already;
  /// on every rank, naming the ranks that do not trace or have other steps
  explicit Trace(const TraceOptions& options);
  /// Drops the recording, with a warning, if its steps are not over and `finish` was not called.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Ends the recording. Rank 0 waits, for at most 20 s, until all ranks have sent their parts, and writes the file. If
  /// the steps were over before, the file exists already. Can be called again.
  /// @return  the summary, in lines, on the rank that wrote the file; else empty
  /// @throws Error  if the file could not be written
  std::string finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// "10-20" or "10" as first and last step. @throws UsageError  if the text is something else
TraceOptions trace_options(const std::string& file, const std::string& steps);

}  // namespace lockstep
