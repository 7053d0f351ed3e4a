#include "lockstep/detail/safetensors/weight_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/safetensors/weight_index.h"
#include "lockstep/safetensors/weight_plan.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRankPart = "model_shard-";  // of a checkpoint: model_shard-00001-of-00002.safetensors
constexpr std::uint64_t kMaxIndexBytes = 256 << 20;

std::string weights_in(const std::string& folder) {
  for (const char* name : {kWeightsFile, kWeightIndexFile}) {
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
    throw Error("the weights in " + folder + " are saved in parts, one for each rank", folder,
                fmt::format("write them as one file: lockstep merge-weights {} MERGED; then give MERGED", folder));
  }
  throw Error("no weights in " + folder, folder,
              fmt::format("give a folder that holds {} or {}", kWeightsFile, kWeightIndexFile));
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
  throw Error(fmt::format("there is no tensor \"{}\" among the {} tensors of the weights", name, file_of_.size()),
              path_, "list the tensors and choose one of them");
}

const SafetensorsEntry& WeightFiles::entry(const std::string& name) const { return file_of(name).entry(name); }

void WeightFiles::require_whole() const {
  for (const SafetensorsFile& file : files_) file.require_whole();
}

at::Tensor WeightFiles::tensor(const std::string& name) const { return file_of(name).tensor(name); }

void write_weight_files(const std::string& folder, const NamedTensors& tensors, std::uint64_t max_shard_bytes) {
  create_folders(folder);
  const std::vector<WeightFile> files = plan_weight_files(tensors, max_shard_bytes);
  for (const WeightFile& file : files) write_safetensors((fs::path(folder) / file.name).string(), file.tensors);
  finish_weight_files(folder, files);
}

}  // namespace lockstep
