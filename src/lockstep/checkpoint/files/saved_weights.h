#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/checkpoint/files/tensor_pieces.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The weights of one model in a checkpoint, for reading: one file with whole tensors, or the files of several ranks
/// with parts of them. The files are mapped, so only what is copied is read.
class SavedWeights {
 public:
  struct Tensor {
    std::string dtype;  ///< as in safetensors: "F32"
    at::ScalarType type = at::kFloat;
    std::vector<std::int64_t> sizes;
    std::vector<TensorPiece> pieces;  ///< in order, without a gap; the owner is a file
  };

  /// @throws Error  if there are no weights, a file is refused, or the parts of a tensor leave a gap, overlap or do not
  /// fit each other
  SavedWeights(const std::string& folder, const Manifest& manifest, std::size_t index);

  /// The file, or the folder if there are several.
  const std::string& path() const { return path_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  /// @throws Error  if there is no such tensor
  const Tensor& tensor(const std::string& name) const;
  /// Copies elements [begin, end) of a tensor into `flat`, which is one-dimensional and as long.
  void copy(const std::string& name, std::int64_t begin, std::int64_t end, at::Tensor& flat) const;
  /// The elements of one piece, one-dimensional, where they lie in the file.
  at::Tensor elements(const std::string& name, const TensorPiece& piece) const;
  /// For after tensors were read. @throws Error  if a file was shortened, or could not be read everywhere
  void require_whole() const;

 private:
  void add_file(const std::string& path, bool has_parts);
  void check_pieces();

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace lockstep
