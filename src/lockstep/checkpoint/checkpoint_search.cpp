#include "lockstep/checkpoint/checkpoint_search.h"

#include <fmt/format.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "lockstep/comm/broadcast_text.h"

namespace lockstep {
namespace {

// Text that every rank must find at the checkpoint's path.
std::string identity_of(const Checkpoint& checkpoint) { return manifest_json(checkpoint.manifest()); }

// Opens `folder` on the ranks that have not verified it, and compares their view with rank 0's.
Checkpoint open_together(const std::string& folder, std::optional<Checkpoint> mine, Communicator& communicator) {
  std::string identity;
  run_together(communicator, "opening " + folder, [&] {
    if (!mine) mine.emplace(folder, Verify::Sizes);
    identity = identity_of(*mine);
  });
  const std::string first = broadcast_text(communicator, identity);
  run_together(communicator, "comparing " + folder, [&] {
    if (identity == first) return;
    throw Error(fmt::format("{} is not the same checkpoint here as on rank 0", folder),
                communicator.membership().where(), "give an output folder on a file system that all ranks share");
  });
  return std::move(*mine);
}

}  // namespace

std::string CheckpointSearch::notice() const {
  std::string text;
  for (const DamagedCheckpoint& one : damaged) text += fmt::format("{} is skipped: {}\n", one.path, one.reason);
  return text;
}

std::string checkpoint_path(const std::string& output_dir, std::int64_t step) {
  return output_dir + "/" + CheckpointNames::numbered().of(step);
}

std::optional<std::int64_t> step_of_checkpoint(const std::string& path) {
  auto name = std::filesystem::path(path).filename().string();
  if (name.empty()) name = std::filesystem::path(path).parent_path().filename().string();
  return CheckpointNames::numbered().step_in(name);
}

CheckpointSearch find_newest_checkpoint(const std::string& output_dir, const CheckpointNames& names) {
  CheckpointSearch search;
  for (const auto& entry : OutputFolder(real_file_system(), output_dir, names).entries(true)) {
    if (!entry.manifest) {
      search.damaged.push_back({entry.path, entry.problem});  // its age is unknown
      continue;
    }
    if (search.newest) continue;
    try {
      search.newest.emplace(entry.path, Verify::Checksums);
    } catch (const Error& error) {
      search.damaged.push_back({entry.path, error.happened()});
    }
  }
  return search;
}

CheckpointSearch find_newest_checkpoint(const std::string& output_dir, Communicator& communicator,
                                        const CheckpointNames& names) {
  CheckpointSearch search;
  run_together(communicator, "searching " + output_dir + " for the newest whole checkpoint", [&] {
    if (communicator.rank() == 0) search = find_newest_checkpoint(output_dir, names);
  });
  const std::string path = broadcast_text(communicator, search.newest ? search.newest->path() : "");
  if (!path.empty()) search.newest = open_together(path, std::move(search.newest), communicator);
  return search;
}

Checkpoint open_checkpoint(const std::string& folder, Communicator& communicator) {
  std::optional<Checkpoint> mine;
  run_together(communicator, "verifying " + folder, [&] {
    if (communicator.rank() == 0) mine.emplace(folder, Verify::Checksums);
  });
  return open_together(folder, std::move(mine), communicator);
}

}  // namespace lockstep
