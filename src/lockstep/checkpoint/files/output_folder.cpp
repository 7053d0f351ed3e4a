#include "lockstep/checkpoint/files/output_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/random/random_bits.h"
#include "lockstep/checkpoint/files/staged_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBeingWritten = ".tmp-";
constexpr const char* kStandingBy = ".old-";
constexpr const char* kBeingRemoved = ".del-";

constexpr std::size_t kTokenDigits = 16;

// Distinguishes the staging folders of all writers: hosts, processes and threads.
std::string unique_token() { return fmt::format("{:016x}", random_bits()); }

bool is_token(const std::string& text) {
  return text.size() == kTokenDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool has_prefix(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

std::string without_ending(const std::string& text, const std::string& ending) {
  const bool has_it =
      text.size() > ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
  return has_it ? text.substr(0, text.size() - ending.size()) : text;
}

// @param step  the step in the folder's name
OutputFolder::Entry read_entry(const std::string& path, std::optional<std::int64_t> step) {
  OutputFolder::Entry entry;
  entry.path = path;
  entry.step = step.value_or(0);
  try {
    entry.manifest = read_manifest(path);
    if (!step) entry.step = entry.manifest->step;
    if (entry.manifest->step == entry.step) return entry;
    entry.problem = fmt::format("its manifest is for step {}: the folder was renamed", entry.manifest->step);
    entry.manifest.reset();
  } catch (const Error& error) {
    entry.problem = error.happened();
  }
  return entry;
}

}  // namespace

OutputFolder::OutputFolder(FileSystem& files, std::string path, CheckpointNames names)
    : files_(files), path_(std::move(path)), names_(std::move(names)) {}

std::string OutputFolder::beside(const char* kind, const std::string& name) const { return path_ + "/" + kind + name; }

// ".tmp-NAME-NUMBER-TOKEN", or without a token, as older versions wrote it.
bool OutputFolder::is_staging(const std::string& name) const {
  if (!has_prefix(name, kBeingWritten)) return false;
  std::string rest = name.substr(std::string(kBeingWritten).size());
  std::size_t dash = rest.rfind('-');
  if (dash != std::string::npos && is_token(rest.substr(dash + 1))) {
    rest.resize(dash);
    dash = rest.rfind('-');
  }
  return dash != std::string::npos && dash > 0 && names_.fits(rest.substr(0, dash));
}

// Whether this is the name of an entry that is being written, replaced or removed.
bool OutputFolder::is_left_behind(const std::string& name) const {
  for (const std::string kind : {kStandingBy, kBeingRemoved}) {
    if (has_prefix(name, kind) && names_.fits(name.substr(kind.size()))) return true;
  }
  return is_staging(without_ending(name, StagingLock::kEnding));
}

std::vector<OutputFolder::Entry> OutputFolder::entries(bool with_foreign) const {
  std::vector<Entry> all;
  for (const std::string& name : files_.names_in(path_)) {
    const std::string path = path_ + "/" + name;
    std::error_code ignored;
    // A checkpoint that was being replaced is used if a crash left nothing under its name.
    const bool stands_by = has_prefix(name, kStandingBy);
    const std::string plain = stands_by ? name.substr(std::string(kStandingBy).size()) : name;
    if (!names_.fits(plain) || !fs::is_directory(path, ignored)) continue;
    if (stands_by && fs::exists(path_ + "/" + plain, ignored)) continue;
    if (with_foreign || fs::exists(path + "/" + kManifestFile, ignored)) {
      all.push_back(read_entry(path, names_.step_in(plain)));
    }
  }
  const auto age = [](const Entry& entry) {
    return std::make_pair(entry.manifest ? entry.manifest->sequence : -1, entry.step);
  };
  std::sort(all.begin(), all.end(), [&](const Entry& a, const Entry& b) { return age(a) > age(b); });
  return all;
}

void OutputFolder::recover() noexcept {
  try {
    bool is_written = false;  // another program is writing: entries may be its own
    std::vector<std::string> left;
    for (const std::string& name : files_.names_in(path_)) {
      if (!is_left_behind(name)) continue;
      const std::string staging = without_ending(name, StagingLock::kEnding);
      const bool is_held = is_staging(staging) && StagingLock::is_held(path_ + "/" + staging);
      is_written = is_written || is_held;
      if (!is_held) left.push_back(name);
    }
    for (const std::string& name : left) {
      if (!is_written || is_staging(without_ending(name, StagingLock::kEnding))) put_back_or_remove(name);
    }
  } catch (const std::exception& error) {
    log_warning("cannot tidy up {}: {}", path_, error.what());
  }
}

void OutputFolder::put_back_or_remove(const std::string& name) {
  const std::string path = path_ + "/" + name;
  if (has_prefix(name, kStandingBy)) {
    std::error_code ignored;
    const std::string final = path_ + "/" + name.substr(std::string(kStandingBy).size());
    if (!fs::exists(final, ignored) && files_.rename(path, final) == 0) return;
  }
  files_.remove_tree(path);
}

std::string OutputFolder::stage(std::int64_t step, std::int64_t number) {
  const std::string path = beside(kBeingWritten, fmt::format("{}-{}-{}", names_.of(step), number, unique_token()));
  writing_ = StagingLock(path);
  if (files_.make_folder(path, 0755) != 0) fail_to("make the folder", path);
  return path;
}

void OutputFolder::publish(const std::string& staging, std::int64_t step) {
  const std::string final = final_path(step);
  std::error_code ignored;
  set_aside_foreign(final);
  if (fs::exists(fs::symlink_status(final, ignored))) {
    replace(staging, final);
  } else if (files_.rename(staging, final) != 0) {
    fail_to("publish", final);
  }
  if (files_.sync_folder(path_) != 0) fail_to("sync folder", path_);
  if (!files_.remove_tree(staging)) log_warning("cannot remove {}: {}", staging, errno_text(errno));
  writing_ = StagingLock();
}

// Renames an entry that this library did not publish, in order to keep it.
void OutputFolder::set_aside_foreign(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored)) || fs::exists(path + "/" + kManifestFile, ignored)) return;
  if (fs::is_directory(path, ignored) && fs::is_empty(path, ignored) && files_.remove_tree(path)) return;
  if (!names_.is_numbered()) {
    throw Error(path + " exists and is not a checkpoint", path, "give a folder of its own, such as " + path + "/state");
  }
  std::string aside = path + ".replaced";
  for (int count = 2; fs::exists(fs::symlink_status(aside, ignored)); ++count) {
    aside = fmt::format("{}.replaced-{}", path, count);
  }
  if (files_.rename(path, aside) != 0) fail_to("set aside", path);
  log_warning("{} has no manifest and is in the way of a new checkpoint: it was renamed to {}", path, aside);
}

// Replaces a checkpoint by another one of the same step: a run went back and reached this step again.
void OutputFolder::replace(const std::string& staging, const std::string& final) {
  if (files_.exchange(staging, final) == 0) return;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) fail_to("publish", final);
  const std::string old = beside(kStandingBy, fs::path(final).filename().string());
  if (!files_.remove_tree(old)) fail_to("remove", old);
  if (files_.rename(final, old) != 0) fail_to("set aside", final);
  if (files_.rename(staging, final) != 0) {
    const int code = errno;
    files_.rename(old, final);
    errno = code;
    fail_to("publish", final);
  }
  if (files_.sync_folder(path_) != 0) fail_to("sync folder", path_);
  if (!files_.remove_tree(old)) log_warning("cannot remove {}: {}", old, errno_text(errno));
}

void OutputFolder::rotate(int limit, std::int64_t newest, std::optional<std::int64_t> best) noexcept {
  if (limit <= 0) return;
  try {
    std::vector<Entry> all = entries(false);
    std::size_t left = all.size();
    for (auto entry = all.rbegin(); entry != all.rend() && left > static_cast<std::size_t>(limit); ++entry) {
      if (entry->step == newest || entry->step == best) continue;
      remove_checkpoint(entry->path);
      --left;
    }
  } catch (const std::exception& error) {
    log_warning("cannot remove old checkpoints of {}: {}", path_, error.what());
  }
}

void OutputFolder::remove_checkpoint(const std::string& path) noexcept {
  // Renamed first, and synced: a half-removed folder must not look like a checkpoint, nor reappear.
  const std::string doomed = beside(kBeingRemoved, fs::path(path).filename().string());
  const bool is_renamed =
      files_.remove_tree(doomed) && files_.rename(path, doomed) == 0 && files_.sync_folder(path_) == 0;
  if (is_renamed && files_.remove_tree(doomed)) return;
  log_warning("cannot remove the old checkpoint {}: {}", path, errno_text(errno));
}

}  // namespace lockstep
