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
  /// @throws Error  if there are none, a shard is missing or refused, or a tensor is not in the shard that the index
  /// says
  explicit WeightFiles(const std::string& path);

  /// The file that was opened: the weights', or the index.
  const std::string& path() const { return path_; }
  /// The files that hold tensors, shards in the index's order.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Names of all tensors, in alphabetical order.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return file_of_.count(name) != 0; }
  /// @throws Error  if there is no such tensor
  const SafetensorsEntry& entry(const std::string& name) const;
  /// Where it lies in memory and how long it lives: as SafetensorsFile::tensor.
  at::Tensor tensor(const std::string& name) const;

 private:
  void open_shards();
  const SafetensorsFile& file_of(const std::string& name) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

/// Largest shard that write_weight_files makes when not told otherwise, as Hugging Face's `save_pretrained`.
constexpr std::uint64_t kDefaultMaxShardBytes = 5'000'000'000;

/// Writes `tensors` into `folder` (made if it is not there): `model.safetensors`, or, where that would be longer than
/// `max_shard_bytes`, `model-00001-of-0000N.safetensors`… and then their index. Tensors stay in order; one that is
/// longer than the limit gets a shard of its own. Weight files of an earlier save that this one does not replace are
/// removed when everything new is written.
/// @throws Error  as write_safetensors
void write_weight_files(const std::string& folder, const NamedTensors& tensors,
                        std::uint64_t max_shard_bytes = kDefaultMaxShardBytes);

}  // namespace lockstep
