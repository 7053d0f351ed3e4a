#include "lockstep/checkpoint/files/saved_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"
#include "lockstep/checkpoint/files/part_metadata.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_weights(const std::string& path, const std::string& problem) {
  throw Error(problem, path, "resume from another checkpoint, or copy this one again from a whole copy");
}

// The places of a file's tensors: what its metadata says, or the whole of each.
PartPlaces places_in(const SafetensorsFile& file, bool has_parts) {
  PartPlaces places;
  if (has_parts) {
    const auto text = file.metadata().find(kPartsKey);
    if (text == file.metadata().end()) refuse_weights(file.path(), file.path() + " does not say which parts it holds");
    places = parse_part_places(text->second, file.path());
  } else {
    for (const SafetensorsEntry& entry : file.entries())
      places[entry.name] = {entry.shape, 0, elements_in(entry.shape)};
  }
  return places;
}

}  // namespace

SavedWeights::SavedWeights(const std::string& folder, const Manifest& manifest, std::size_t index)
    : path_(folder + "/" + weights_file(index)) {
  if (manifest.files.count(weights_file(index)) != 0) {
    add_file(path_, false);
    return;
  }
  const std::vector<std::string> shards = weights_shard_names(manifest, index);
  if (shards.empty()) throw Error(folder + " has no weights", folder, "resume from a checkpoint that has them");
  path_ = folder;
  for (const std::string& shard : shards) add_file(folder + "/" + shard, true);
  check_pieces();
}

void SavedWeights::add_file(const std::string& path, bool has_parts) {
  const SafetensorsFile& file = files_.emplace_back(path);
  const PartPlaces places = places_in(file, has_parts);
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto place = places.find(entry.name);
    const auto type = dtype_of_safetensors(entry.dtype);
    if (!type) {
      throw Error(fmt::format("\"{}\" is {}, a type that this LibTorch does not have", entry.name, entry.dtype), path,
                  "build against a newer LibTorch");
    }
    const std::int64_t count = elements_in(entry.shape);
    if (place == places.end() || place->second.end - place->second.begin != count) {
      refuse_weights(path,
                     fmt::format("{} does not say which {} elements of \"{}\" it contains", path, count, entry.name));
    }
    const auto [found, is_new] = tensors_.try_emplace(entry.name, Tensor{entry.dtype, *type, place->second.sizes, {}});
    if (!is_new && (found->second.sizes != place->second.sizes || found->second.dtype != entry.dtype)) {
      refuse_weights(path,
                     fmt::format("\"{}\" has another shape or dtype in {} than in the other parts", entry.name, path));
    }
    found->second.pieces.push_back({place->second.begin, place->second.end, files_.size() - 1});
  }
}

void SavedWeights::check_pieces() {
  for (auto& [name, tensor] : tensors_) {
    const std::string fault = sort_pieces(name, tensor.pieces, elements_in(tensor.sizes));
    if (!fault.empty()) refuse_weights(path_, fault);
  }
}

const SavedWeights::Tensor& SavedWeights::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  throw Error(fmt::format("there is no tensor \"{}\" among the {} tensors of the checkpoint", name, tensors_.size()),
              path_, "resume with the model of the saved run");
}

at::Tensor SavedWeights::elements(const std::string& name, const TensorPiece& piece) const {
  return files_[piece.owner].tensor(name).reshape({-1});
}

void SavedWeights::copy(const std::string& name, std::int64_t begin, std::int64_t end, at::Tensor& flat) const {
  for (const TensorPiece& piece : tensor(name).pieces) {
    const std::int64_t first = std::max(begin, piece.begin);
    const std::int64_t last = std::min(end, piece.end);
    if (first >= last) continue;
    flat.slice(0, first - begin, last - begin)
        .copy_(elements(name, piece).slice(0, first - piece.begin, last - piece.begin));
  }
}

void SavedWeights::require_whole() const {
  for (const SafetensorsFile& file : files_) file.require_whole();
}

}  // namespace lockstep
