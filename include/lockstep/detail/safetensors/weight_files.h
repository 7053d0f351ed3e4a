#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The weights of a model folder: `model.safetensors`, or the shards that `model.safetensors.index.json` names.
class WeightFiles {
 public:
  /// @param path  a folder, a `.safetensors` file, or a `.safetensors.index.json` file
  /// @throws Error  if there are no weights, a shard is missing or refused, or a tensor is not in the shard that the
  /// index names
  explicit WeightFiles(const std::string& path);

  /// The opened file: the weights, or the index.
  const std::string& path() const { return path_; }
  /// The files that hold tensors, shards in the index's order.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Names of all tensors, in alphabetical order.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return file_of_.count(name) != 0; }
  /// @throws Error  if there is no such tensor
  const SafetensorsEntry& entry(const std::string& name) const;
  /// The tensor, with the memory and lifetime of SafetensorsFile::tensor.
  at::Tensor tensor(const std::string& name) const;
  /// For after tensors were read. @throws Error  if a file was shortened, or could not be read everywhere
  void require_whole() const;

 private:
  void open_shards();
  const SafetensorsFile& file_of(const std::string& name) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

/// Default size limit of a shard in write_weight_files, equal to that of Hugging Face's `save_pretrained`.
constexpr std::uint64_t kDefaultMaxShardBytes = 5'000'000'000;

/// Writes `tensors` into `folder`, which is created if it does not exist: `model.safetensors`, or, if that would be
/// longer than `max_shard_bytes`, `model-00001-of-0000N.safetensors`… and then their index. Tensors stay in order; a
/// tensor longer than the limit gets its own shard. Weight files of an earlier save that this one does not replace are
/// removed after everything new is written.
/// @throws Error  as write_safetensors
void write_weight_files(const std::string& folder, const NamedTensors& tensors,
                        std::uint64_t max_shard_bytes = kDefaultMaxShardBytes);

}  // namespace lockstep
