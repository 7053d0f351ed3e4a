#include "lockstep/hub/hub_cache.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/regular_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const HubSettings& settings, std::string id) {
  if (const std::size_t slash = id.find('/'); slash != std::string::npos) id.replace(slash, 1, "--");
  return fs::path(settings.cache) / ("models--" + id);
}

fs::path snapshot_of(const HubSettings& settings, const std::string& id, const std::string& commit) {
  return folder_of(settings, id) / "snapshots" / commit;
}

bool is_hash(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The commit that the cache remembers for a branch or a tag.
std::string commit_of(const HubSettings& settings, const std::string& id, const std::string& revision) {
  constexpr std::uint64_t kMostBytes = 200;
  constexpr std::size_t kCommitDigits = 40;
  if (is_hash(revision, kCommitDigits)) return revision;
  const fs::path path = folder_of(settings, id) / "refs" / revision;
  const bool is_inside = revision.find("..") == std::string::npos && revision.front() != '/';
  std::string commit = is_inside && fs::is_regular_file(path) ? read_regular_file(path.string(), kMostBytes) : "";
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  return is_hash(commit, kCommitDigits) ? commit : "";
}

// A file of a snapshot is a link to the content, whose name is the sum by which the Hub knows it.
HubFile entry_of(const fs::path& path) {
  constexpr std::size_t kSha256Digits = 64, kSha1Digits = 40;
  HubFile file;
  file.name = path.filename().string();
  file.bytes = static_cast<std::int64_t>(fs::file_size(path));
  const std::string content = fs::canonical(path).filename().string();
  if (is_hash(content, kSha256Digits)) file.sha256 = content;
  if (is_hash(content, kSha1Digits)) file.git_sha1 = content;
  return file;
}

}  // namespace

HubModel cached_model(const HubSettings& settings, const std::string& id, const std::string& revision) {
  require_model_id(id);
  HubModel model;
  model.id = id;
  model.commit = commit_of(settings, id, revision);
  const fs::path snapshot = snapshot_of(settings, id, model.commit);
  if (model.commit.empty() || !fs::is_directory(snapshot)) {
    throw Error("HF_HUB_OFFLINE forbids asking the Hub, and the cache has no " + id + " at revision " + revision,
                folder_of(settings, id).string(),
                "unset HF_HUB_OFFLINE, or name the cache that has it in HF_HUB_CACHE");
  }
  for (const auto& entry : fs::directory_iterator(snapshot)) {
    if (fs::is_regular_file(entry.path())) model.files.push_back(entry_of(entry.path()));
  }
  return model;
}

std::optional<std::string> cached_file(const HubSettings& settings, const HubModel& model, const std::string& name) {
  const fs::path path = snapshot_of(settings, model.id, model.commit) / name;
  if (!fs::is_regular_file(path)) return std::nullopt;
  return path.string();
}

}  // namespace lockstep
