#include "lockstep/train/folder/training_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/files/unfinished_files.h"
#include "lockstep/base/log.h"
#include "lockstep/train/folder/folder_neighbours.h"

namespace lockstep {
namespace {

using As = FolderPresence::As;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenEntries{20};
constexpr milliseconds kUntilWritten{500};
// For the ranks of a training that has lost its first one: most end then.
constexpr milliseconds kUntilOthersEnd{5000};

bool are_about_to_end(const std::vector<FolderHolder>& others) {
  return std::any_of(others.begin(), others.end(), [](const FolderHolder& each) { return each.ends_soon(); });
}

bool is_one_elsewhere(const std::vector<FolderHolder>& others) {
  return std::any_of(others.begin(), others.end(), [](const FolderHolder& each) { return each.is_on_another_host(); });
}

// How long to wait until they are gone.
milliseconds patience_with(const std::vector<FolderHolder>& others) {
  if (others.empty()) return kUntilWritten;
  if (are_about_to_end(others)) return longest_end(is_one_elsewhere(others));
  const FolderHolder& first = others.front();
  return first.has_ended() || first.is_on_another_host() ? kUntilOthersEnd : milliseconds(0);
}

// Names one that has not ended, as far as that is known.
[[noreturn]] void refuse(const std::vector<FolderHolder>& others, const std::string& folder) {
  const auto is_there = [](const FolderHolder& each) { return !each.has_ended(); };
  const auto found = std::find_if(others.begin(), others.end(), is_there);
  std::string who;
  if (!others.empty()) who = found == others.end() ? others.back().text() : found->text();
  if (found != others.end() && found != others.begin()) {
    who += fmt::format("; its first rank, process {}, has ended, and others of its ranks have not", others.front().pid);
  }
  refuse_held_folder(who, is_one_elsewhere(others), !others.empty() && !are_about_to_end(others), folder,
                     folder + "/" + FolderPresence::kFile);
}

}  // namespace

TrainingFolder::TrainingFolder(const TrainingArguments& args)
    : path_(args.output_dir), is_saved_into_(args.save_strategy != "no"), may_become_first_(args.survive_lost_ranks) {}

bool TrainingFolder::needs_lock() const { return !lock_ && (is_saved_into_ || ::access(path_.c_str(), W_OK) == 0); }

void TrainingFolder::be_present(As as, Patience patience) {
  if (presence_ && presence_->is_in_place()) return;
  presence_.reset();
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    FolderPresence::Try found = FolderPresence::try_enter(path_, as);
    presence_ = found.presence;
    if (presence_) return;
    if (found.problem != 0) return log_debug("{}: cannot be entered: {}", path_, errno_text(found.problem));
    const auto waited = std::chrono::steady_clock::now() - began;
    if (waited > std::min(patience_with(found.others), patience.value_or(milliseconds::max())))
      refuse(found.others, path_);
    std::this_thread::sleep_for(kBetweenEntries);
  }
}

void TrainingFolder::have_taken() {
  if (!lock_->is_held()) return;
  remove_unfinished_files(path_);
  if (!mark_) mark_ = TrainingMark::of_this_process();
  mark_->write(path_);
}

std::optional<TrainingMark> TrainingFolder::mark_of_another() const {
  auto found = TrainingMark::read(path_);
  return mark_ && found && found->number != mark_->number ? found : std::nullopt;
}

void TrainingFolder::take(OutputFolderLock::Awaited awaited, Patience patience) {
  if (!needs_lock()) return;
  const bool begins = !presence_;
  if (begins) require_no_training_around(path_);
  be_present(begins ? As::First : As::Successor, patience);
  lock_ = OutputFolderLock::take(path_, awaited, patience);
  if (begins && presence_) presence_->replace_others();
  have_taken();
}

void TrainingFolder::enter(Patience patience) {
  std::error_code ignored;
  const bool is_there = std::filesystem::is_directory(path_, ignored);
  if (!needs_lock() || (!is_there && !may_become_first_)) return;
  be_present(As::Follower, patience);
  if (!mark_) mark_ = TrainingMark::read(path_);
}

bool TrainingFolder::try_take(std::string& holder) {
  if (!needs_lock()) return true;
  be_present(As::Successor, milliseconds(0));
  lock_ = OutputFolderLock::try_take(path_, holder);
  if (lock_) have_taken();
  return lock_ != nullptr;
}

void TrainingFolder::keep() {
  if (!lock_ || lock_->is_in_place()) return;
  log_warning("{}: somebody has removed {}, the lock of this training, which still writes there", path_,
              OutputFolderLock::kFile);
  const auto other = mark_of_another();
  lock_.reset();
  if (presence_ && !presence_->is_in_place()) presence_.reset();
  take(OutputFolderLock::Awaited::SameJob);
  if (!other) return;
  throw_caused(Error("another training has begun in this folder meanwhile, and ended: " + other->who +
                         ". Its checkpoints, logs and model are among those of this training",
                     path_,
                     fmt::format("continue in another --output-dir, from a checkpoint of this training; let nobody "
                                 "remove {} and {} while a training runs",
                                 OutputFolderLock::kFile, FolderPresence::kFile)),
               FailureCause{FailureCause::Kind::Usage, -1});
}

}  // namespace lockstep
