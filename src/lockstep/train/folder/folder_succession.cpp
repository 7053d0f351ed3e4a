#include "lockstep/train/folder/folder_succession.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/log.h"
#include "lockstep/elastic/elastic_ranks.h"
#include "lockstep/net/long_work.h"
#include "lockstep/train/folder/lost_logs.h"
#include "lockstep/train/folder/training_folder.h"
#include "lockstep/train/metrics_log_callback.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// The longest time for which a lost process is known to keep a lock: an NFS server releases those of a host that is
// gone after 90 s by default.
constexpr std::chrono::seconds kLongest{120};
constexpr milliseconds kBetweenTries{20};

std::string named(const std::string& holder) { return holder.empty() ? "another process" : holder; }

}  // namespace

void FolderSuccession::begin() {
  const bool is_known = std::exchange(is_awaited_, true);
  try_again();
  if (!is_awaited_ || is_known) return;
  log_warning(
      "{}: the output folder {} is still held by {}, which the lost first rank has left behind. The training "
      "continues; its logs are written and shown once that process has ended",
      context_.where(), context_.training_folder->path(), named(holder_));
}

void FolderSuccession::try_again() {
  is_awaited_ = !context_.training_folder->try_take(holder_);
  context_.state.is_world_process_zero = !is_awaited_;
}

void FolderSuccession::wait(const std::string& what) {
  try_again();
  if (!is_awaited_) return;
  log_warning("{}: {} waits for the output folder {}, which is held by {}", context_.where(), what,
              context_.training_folder->path(), named(holder_));
  const LongWork work(context_.elastic->group()->membership(), "waiting for the output folder");
  const Deadline deadline = Deadline::after(kLongest);
  for (; is_awaited_; try_again()) {
    context_.elastic->require_all();
    if (deadline.passed()) context_.training_folder->take(OutputFolderLock::Awaited::Any, milliseconds(0));
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void FolderSuccession::take_at_the_end() {
  const LongWork work(context_.elastic->group()->membership(), "waiting for the output folder");
  context_.training_folder->take(OutputFolderLock::Awaited::Any);
  is_awaited_ = false;
  context_.state.is_world_process_zero = true;
}

void FolderSuccession::keep_log(const Logs& logs) {
  if (!is_awaited_) return;
  const TrainerState& state = context_.state;
  logs_.push_back({logs, state.global_step, state.epoch});
  logs_.back().logs.emplace_back("epoch", state.epoch);
}

void FolderSuccession::find_lost_logs() {
  const auto& callbacks = context_.options.callbacks;
  const bool are_written = std::any_of(callbacks.begin(), callbacks.end(), [](const auto& callback) {
    return dynamic_cast<const MetricsLogCallback*>(callback.get()) != nullptr;
  });
  if (!are_written) return;
  const auto lost = lost_logs(context_.training_folder->path() + "/metrics.jsonl", context_.state.log_history);
  if (!lost) return;
  logs_.clear();
  for (const LogEntry& entry : *lost) {
    Logs logs = logs_of(entry);
    const double epoch = find_log(logs, "epoch").value_or(context_.state.epoch);
    logs_.push_back({std::move(logs), entry.step, epoch});
  }
}

void FolderSuccession::hand_out_logs() {
  TrainerState& state = context_.state;
  const std::int64_t step = state.global_step;
  const double epoch = state.epoch;
  for (const KeptLog& kept : std::exchange(logs_, {})) {
    state.global_step = kept.step;
    state.epoch = kept.epoch;
    TrainerControl ignored = context_.control;
    TrainerEvent event{context_.args(), state, ignored, &kept.logs, "", 0, 0};
    for (const auto& callback : context_.options.callbacks) callback->on_log(event);
  }
  state.global_step = step;
  state.epoch = epoch;
}

}  // namespace lockstep
