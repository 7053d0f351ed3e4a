#include "lockstep/safetensors/weight_files.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/safetensors/weight_index.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kRankPart = "model_shard-";  // of a checkpoint: model_shard-00001-of-00002.safetensors
constexpr std::uint64_t kMaxIndexBytes = 256 << 20;

std::string weights_in(const std::string& folder) {
  for (const char* name : {kWeights, kIndex}) {
    if (fs::exists(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"}) {
    if (!fs::exists(fs::path(folder) / name)) continue;
    const bool is_pytorch = starts_with(name, "pytorch");
    throw Error(fmt::format("{} has its weights as {}, which is not read", folder, name), folder,
                (is_pytorch ? "`lockstep model convert " + folder + "` writes model.safetensors beside it; or " : "") +
                    "save them as safetensors: in Python, model.save_pretrained(folder, safe_serialization=True)");
  }
  for (const auto& item : fs::directory_iterator(folder)) {
    if (!starts_with(item.path().filename().string(), kRankPart)) continue;
    throw Error("the weights in " + folder + " are in the parts that ranks have saved", folder,
                fmt::format("write them as one file: lockstep merge-weights {} MERGED; then give MERGED", folder));
  }
  throw Error("no weights in " + folder, folder, fmt::format("give a folder that holds {} or {}", kWeights, kIndex));
}

// "model.safetensors", "model-00001-of-00002.safetensors", and the index of either.
bool is_weight_file(const std::string& name) {
  constexpr const char* kDigits = "[0-9][0-9][0-9][0-9][0-9]";
  const std::string shard = fmt::format("model-{0}-of-{0}.safetensors", kDigits);
  for (const std::string& pattern : {std::string(kWeights), shard}) {
    for (const char* end : {"", ".index.json"}) {
      if (::fnmatch((pattern + end).c_str(), name.c_str(), 0) == 0) return true;
    }
  }
  return false;
}

void remove_stale(const std::string& folder, const std::set<std::string>& written) {
  std::vector<fs::path> stale;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (is_weight_file(name) && written.count(name) == 0) stale.push_back(item.path());
  }
  for (const fs::path& path : stale) fs::remove(path);
}

std::vector<NamedTensors> split(const NamedTensors& tensors, std::uint64_t max_bytes) {
  std::vector<NamedTensors> shards(1);
  std::uint64_t bytes = 0;
  for (const auto& item : tensors) {
    const std::uint64_t more = item.second.nbytes();
    if (!shards.back().empty() && bytes + more > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(item);
    bytes += more;
  }
  return shards;
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(fs::is_directory(path) ? weights_in(path) : path) {
  if (ends_with(path_, ".index.json")) {
    open_shards();
    return;
  }
  files_.emplace_back(path_);
  for (const SafetensorsEntry& entry : files_.back().entries()) file_of_.emplace(entry.name, 0);
}

void WeightFiles::open_shards() {
  std::map<std::string, std::size_t> shards;
  for (const auto& [name, shard] : parse_weight_index(read_regular_file(path_, kMaxIndexBytes), path_)) {
    const auto [found, is_new] = shards.emplace(shard, files_.size());
    if (is_new) files_.emplace_back((fs::path(path_).parent_path() / shard).string());
    if (!files_[found->second].contains(name)) {
      throw Error(fmt::format("tensor \"{}\" is not in {}, where the index has it", name, shard), path_,
                  "copy all shards of the same save");
    }
    file_of_.emplace(name, found->second);
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> all;
  all.reserve(file_of_.size());
  for (const auto& item : file_of_) all.push_back(item.first);
  return all;
}

const SafetensorsFile& WeightFiles::file_of(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) return files_[found->second];
  throw Error(fmt::format("there is no tensor \"{}\" among the {} of the weights", name, file_of_.size()), path_,
              "list the tensors and choose one of them");
}

const SafetensorsEntry& WeightFiles::entry(const std::string& name) const { return file_of(name).entry(name); }

void WeightFiles::require_whole() const {
  for (const SafetensorsFile& file : files_) file.require_whole();
}

at::Tensor WeightFiles::tensor(const std::string& name) const { return file_of(name).tensor(name); }

void write_weight_files(const std::string& folder, const NamedTensors& tensors, std::uint64_t max_shard_bytes) {
  create_folders(folder);
  const std::vector<NamedTensors> shards = split(tensors, max_shard_bytes);
  std::set<std::string> written;
  if (shards.size() == 1) {
    write_safetensors((fs::path(folder) / kWeights).string(), tensors);
    written.insert(kWeights);
  } else {
    nlohmann::json weight_map = nlohmann::json::object();
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      write_safetensors((fs::path(folder) / name).string(), shards[i]);
      written.insert(name);
      for (const auto& [tensor_name, tensor] : shards[i]) {
        weight_map[tensor_name] = name;
        total += tensor.nbytes();
      }
    }
    const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    write_file_atomically((fs::path(folder) / kIndex).string(), index.dump(2) + "\n");
    written.insert(kIndex);
  }
  remove_stale(folder, written);
}

}  // namespace lockstep
