#include "lockstep/safetensors/weight_plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/files/atomic_file.h"

namespace lockstep {
namespace {

// "model.safetensors", "model-00001-of-00002.safetensors", and the index of either.
bool is_weight_file(const std::string& name) {
  constexpr const char* kDigits = "[0-9][0-9][0-9][0-9][0-9]";
  const std::string shard = fmt::format("model-{0}-of-{0}.safetensors", kDigits);
  for (const std::string& pattern : {std::string(kWeightsFile), shard}) {
    for (const char* end : {"", ".index.json"}) {
      if (::fnmatch((pattern + end).c_str(), name.c_str(), 0) == 0) return true;
    }
  }
  return false;
}

void remove_stale(const std::string& folder, const std::set<std::string>& written) {
  std::vector<std::filesystem::path> stale;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (is_weight_file(name) && written.count(name) == 0) stale.push_back(item.path());
  }
  for (const std::filesystem::path& path : stale) std::filesystem::remove(path);
}

}  // namespace

std::vector<WeightFile> plan_weight_files(const NamedTensors& tensors, std::uint64_t max_shard_bytes) {
  std::vector<WeightFile> files(1);
  std::uint64_t bytes = 0;
  for (const auto& item : tensors) {
    const std::uint64_t more = item.second.nbytes();
    if (!files.back().tensors.empty() && bytes + more > max_shard_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().tensors.push_back(item);
    bytes += more;
  }
  files.front().name = kWeightsFile;
  for (std::size_t i = 0; files.size() > 1 && i < files.size(); ++i) {
    files[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  }
  return files;
}

void finish_weight_files(const std::string& folder, const std::vector<WeightFile>& files) {
  std::set<std::string> written;
  nlohmann::json weight_map = nlohmann::json::object();
  std::uint64_t total = 0;
  for (const WeightFile& file : files) {
    written.insert(file.name);
    for (const auto& [name, tensor] : file.tensors) {
      weight_map[name] = file.name;
      total += tensor.nbytes();
    }
  }
  if (files.size() > 1) {
    const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    write_file_atomically((std::filesystem::path(folder) / kWeightIndexFile).string(), index.dump(2) + "\n");
    written.insert(kWeightIndexFile);
  }
  remove_stale(folder, written);
}

}  // namespace lockstep
