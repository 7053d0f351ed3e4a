#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep {

/// What `merge_weights` has written.
struct MergedWeights {
  std::string path;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;  ///< length of the file
};

/// Writes one model's weights as one safetensors file, with the bytes that a save on rank 0 would have written, from
/// the parts that ranks saved. Data goes from the mapped files to the new one, so no tensor is in memory. The file
/// appears in `folder` when it is complete.
/// @param index  of the model: `model.safetensors`, `model_1.safetensors`...
/// @param progress  is given the number of bytes written so far
/// @throws Error  if the checkpoint has no weights, their parts do not fit each other, or the file cannot be written
MergedWeights merge_weights(const Checkpoint& checkpoint, const std::string& folder, std::size_t index = 0,
                            const std::function<void(std::uint64_t)>& progress = nullptr);

/// The number of models whose weights the checkpoint has.
std::size_t number_of_models(const Checkpoint& checkpoint);

}  // namespace lockstep
