#include "lockstep/checkpoint/merge_weights.h"

#include <ATen/ops/empty.h>

#include <string_view>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"
#include "lockstep/checkpoint/files/saved_weights.h"
#include "lockstep/safetensors/safetensors_layout.h"

namespace lockstep {
namespace {

constexpr std::size_t kMergePieceBytes = std::size_t{1} << 22;

// Tensors without elements: names, sizes and dtypes alone.
NamedTensors outlines(const SavedWeights& saved) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : saved.tensors()) {
    tensors.emplace_back(name, at::empty(tensor.sizes, at::TensorOptions(tensor.type).device(at::kMeta)));
  }
  return tensors;
}

}  // namespace

std::size_t number_of_models(const Checkpoint& checkpoint) {
  std::size_t count = 0;
  while (checkpoint.has_file(weights_file(count)) || !weights_shard_names(checkpoint.manifest(), count).empty()) {
    ++count;
  }
  return count;
}

MergedWeights merge_weights(const Checkpoint& checkpoint, const std::string& folder, std::size_t index,
                            const std::function<void(std::uint64_t)>& progress) {
  const SavedWeights saved(checkpoint.path(), checkpoint.manifest(), index);
  MergedWeights merged;
  merged.path = folder + "/" + weights_file(index);
  const SafetensorsLayout layout = lay_out_safetensors(merged.path, outlines(saved));
  create_folders(folder);
  AtomicFile file(merged.path);
  file.reserve(layout.prefix.size() + layout.data_bytes);
  const auto write = [&](std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kMergePieceBytes) {
      const std::string_view piece = bytes.substr(at, kMergePieceBytes);
      file.write(piece);
      merged.bytes += piece.size();
      if (progress) progress(merged.bytes);
    }
  };
  write(layout.prefix);
  for (const auto& item : layout.tensors) {
    for (const TensorPiece& piece : saved.tensor(item.first).pieces) {
      const at::Tensor elements = saved.elements(item.first, piece);
      write({static_cast<const char*>(elements.data_ptr()), elements.nbytes()});
    }
  }
  saved.require_whole();  // before the file gets its name
  file.commit();
  merged.tensors = layout.tensors.size();
  return merged;
}

}  // namespace lockstep
