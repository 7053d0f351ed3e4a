#include "lockstep/checkpoint/checkpoint_parts.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"
#include "lockstep/checkpoint/files/optimizer_file.h"
#include "lockstep/checkpoint/files/part_metadata.h"
#include "lockstep/checkpoint/files/staged_file.h"

namespace lockstep {
namespace {

// Space for folders, the manifest and the file system's own records.
constexpr std::int64_t kSpareBytes = 1 << 16;

PartFile tensor_file(const std::string& name, const NamedTensors& tensors,
                     const std::map<std::string, std::string>& metadata = {{"format", "pt"}}) {
  const auto stream = std::make_shared<const SafetensorsStream>(name, tensors, metadata);
  return {name, stream->size_bytes(), [stream](const auto& sink) { stream->write(sink); }};
}

PartFile text_file(const std::string& name, std::string text) {
  const std::uint64_t size = text.size();
  return {name, size, [text = std::move(text)](const auto& sink) { sink(text); }};
}

// This rank's parts of one model's weights.
PartFile weight_shard(const std::string& name, const TensorParts& parts) {
  NamedTensors tensors;
  PartPlaces places;
  for (const TensorPart& part : parts) {
    if (part.tensor.numel() != part.end - part.begin) {
      throw Error(fmt::format("there are {} values for elements [{}, {}) of {}", part.tensor.numel(), part.begin,
                              part.end, part.name),
                  "CheckpointWriter::save", "give each part with its own elements");
    }
    tensors.emplace_back(part.name, part.tensor.reshape({-1}));
    places[part.name] = {part.sizes, part.begin, part.end};
  }
  return tensor_file(name, tensors, {{"format", "pt"}, {kPartsKey, part_places_json(places)}});
}

void add_weight_shards(const CheckpointContent& content, int rank, int world_size, std::vector<PartFile>& parts) {
  if (content.weight_parts.empty()) return;
  if (!content.weights.empty() || !content.further_weights.empty()) {
    throw Error("weights were given both whole and in parts", "CheckpointWriter::save",
                "give either CheckpointContent::weights or weight_parts");
  }
  for (std::size_t i = 0; i < content.weight_parts.size() && !content.joins_weight_parts; ++i) {
    parts.push_back(weight_shard(weights_shard_file(i, rank, world_size), content.weight_parts[i]));
  }
}

void add_shared_files(const CheckpointContent& content, std::vector<PartFile>& parts) {
  for (const auto& [name, bytes] : content.files) {
    if (!is_free_file_name(name)) {
      throw Error(
          fmt::format("a checkpoint cannot have a further file \"{}\"", name), "CheckpointWriter::save",
          "give a plain name, or one in a folder with a plain name, that is not one of the checkpoint's own files");
    }
    parts.push_back(text_file(name, bytes));
  }
  if (!content.weights.empty()) parts.push_back(tensor_file(weights_file(0), content.weights));
  for (std::size_t i = 0; i < content.further_weights.size(); ++i) {
    parts.push_back(tensor_file(weights_file(i + 1), content.further_weights[i]));
  }
  if (content.trainer_state) parts.push_back(text_file(kTrainerStateFile, trainer_state_json(*content.trainer_state)));
}

// Folders that a program's own files are in: "1_Pooling" of "1_Pooling/config.json".
std::set<std::string> inner_folders(const std::vector<PartFile>& parts) {
  std::set<std::string> folders;
  for (const PartFile& part : parts) {
    const std::size_t slash = part.name.find('/');
    if (slash != std::string::npos) folders.insert(part.name.substr(0, slash));
  }
  return folders;
}

void check_space(FileSystem& files, const std::string& folder, const std::vector<PartFile>& parts) {
  std::int64_t needed = kSpareBytes;
  for (const PartFile& part : parts) needed += static_cast<std::int64_t>(part.size_bytes);
  const std::int64_t free = files.free_bytes(folder);
  if (free < 0 || free >= needed) return;
  throw Error(fmt::format("this checkpoint needs {} bytes, but the file system has only {} left", needed, free), folder,
              "free space, or keep fewer checkpoints (save_total_limit); earlier checkpoints are whole");
}

}  // namespace

std::vector<PartFile> part_files(const CheckpointContent& content, int rank, int world_size,
                                 const std::vector<JoinedWeights>& joined) {
  std::vector<PartFile> parts;
  if (rank == 0) add_shared_files(content, parts);
  for (std::size_t i = 0; i < joined.size() && rank == 0; ++i) {
    parts.push_back(
        {weights_file(i), joined[i].size_bytes(), [&one = joined[i]](const auto& sink) { one.write(sink); }});
  }
  add_weight_shards(content, rank, world_size, parts);
  for (std::size_t i = 0; i <= content.further_optimizers.size(); ++i) {
    const OptimizerContent& optimizer = i == 0 ? content.optimizer : content.further_optimizers[i - 1];
    const bool is_there = optimizer.is_sharded || !optimizer.groups.empty() || !optimizer.state.empty();
    if (!is_there || (rank != 0 && !optimizer.is_sharded)) continue;
    const OptimizerTensors lists = optimizer_tensors(optimizer);
    const std::string name = optimizer_file(i, optimizer.is_sharded, rank, world_size);
    parts.push_back(tensor_file(name, lists.tensors, lists.metadata));
  }
  if (!content.generators.empty()) parts.push_back(tensor_file(generators_file(rank), content.generators));
  if (!content.samplers.empty()) parts.push_back(text_file(positions_file(rank), positions_json(content.samplers)));
  if (!content.rank_tensors.empty()) parts.push_back(tensor_file(rank_tensors_file(rank), content.rank_tensors));
  return parts;
}

std::map<std::string, Manifest::File> write_parts(FileSystem& files, const std::string& folder,
                                                  const std::vector<PartFile>& parts) {
  check_space(files, folder, parts);
  const std::set<std::string> inner = inner_folders(parts);
  for (const std::string& name : inner) {
    const std::string path = folder + "/" + name;
    if (files.make_folder(path, 0755) != 0 && errno != EEXIST) fail_to("create folder", path);
  }
  std::vector<std::unique_ptr<StagedFile>> open;
  for (const PartFile& part : parts) {
    open.push_back(std::make_unique<StagedFile>(files, folder + "/" + part.name, part.size_bytes));
  }
  std::map<std::string, Manifest::File> written;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    StagedFile& file = *open[i];
    parts[i].write([&](std::string_view bytes) { file.write(bytes); });
    written[parts[i].name] = file.finish();
    open[i].reset();
  }
  for (const std::string& name : inner) {
    if (files.sync_folder(folder + "/" + name) != 0) fail_to("sync folder", folder + "/" + name);
  }
  return written;
}

}  // namespace lockstep
