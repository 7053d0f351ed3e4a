// `lockstep inspect` for checkpoints: shows their content, and verifies every byte.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "tools/lockstep/inspect/inspection.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void add_trainer_state(const Checkpoint& checkpoint, Inspection& out) {
  const TrainerState state = checkpoint.trainer_state();
  out["epoch"] = state.epoch;
  if (state.max_steps > 0) out["max_steps"] = state.max_steps;
  if (state.best_metric) out["best_metric"] = *state.best_metric;
  if (state.best_global_step) out["best_step"] = *state.best_global_step;
  if (state.log_history.empty()) return;
  const LogEntry& last = state.log_history.back();
  out["last_log"] = {{"step", last.step}};
  for (const auto& [name, value] : last.values) out["last_log"][name] = value;
}

// A checkpoint without its weights. @throws Error  if it is damaged
Inspection checkpoint_summary(const Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  Inspection files = Inspection::array();
  for (const auto& [name, file] : checkpoint.manifest().files) {
    files.push_back({{"name", name}, {"bytes", file.bytes}});
    bytes += file.bytes;
  }
  Inspection out{{"kind", "checkpoint"},
                 {"path", checkpoint.path()},
                 {"bytes", bytes},
                 {"step", checkpoint.step()},
                 {"world_size", checkpoint.world_size()}};
  if (checkpoint.has_file("trainer_state.json")) add_trainer_state(checkpoint, out);
  out["files"] = std::move(files);
  return out;
}

}  // namespace

bool is_checkpoint(const std::string& folder) { return fs::exists(fs::path(folder) / kManifestFile); }

bool holds_checkpoints(const std::string& folder) {
  const fs::directory_iterator items(folder);
  return std::any_of(begin(items), end(items), [](const fs::directory_entry& item) {
    return item.is_directory() && step_of_checkpoint(item.path().string()) && is_checkpoint(item.path().string());
  });
}

Inspection inspect_checkpoint(const std::string& folder) {
  const Checkpoint checkpoint(folder, Verify::Checksums);
  Inspection out = checkpoint_summary(checkpoint);
  if (checkpoint.has_file("model.safetensors")) out["weights"] = inspect_weights(checkpoint.weights().path());
  return out;
}

Inspection inspect_checkpoints(const std::string& folder) {
  Inspection out{{"kind", "checkpoints"}, {"path", folder}, {"checkpoints", Inspection::array()}};
  out["problems"] = Inspection::array();
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto step = step_of_checkpoint(item.path().string());
    if (step && item.is_directory() && is_checkpoint(item.path().string())) found.emplace_back(*step, item.path());
  }
  std::sort(found.begin(), found.end());
  for (const auto& [step, path] : found) {
    try {
      out["checkpoints"].push_back(checkpoint_summary(Checkpoint(path, Verify::Checksums)));
    } catch (const Error& error) {
      out["problems"].push_back(fmt::format("{} cannot be used: {}", path, error.happened()));
    }
  }
  return out;
}

}  // namespace lockstep
