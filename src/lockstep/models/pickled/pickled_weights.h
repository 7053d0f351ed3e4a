#pragma once

#include <string>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// Reads the tensors of a state_dict that `torch.save` wrote: `pytorch_model.bin`, in the format of PyTorch 1.6 and
/// later (a zip archive) or in the older one. Nothing of the file is run (see read_pickle). Tensors that share memory
/// in the file share it here.
/// @throws Error  if the file holds anything but a dictionary of tensors by name, is damaged or cut off, or a tensor
/// reaches beyond its storage
NamedTensors read_pickled_weights(const std::string& path);

/// Writes `model.safetensors` (or shards of it) beside the `pytorch_model.bin`, or the shards that
/// `pytorch_model.bin.index.json` names, of `folder`. The old files stay.
/// @return  the number of tensors
/// @throws Error  as read_pickled_weights; if there are no such files; if there is a model.safetensors already
std::int64_t convert_pickled_weights(const std::string& folder);

}  // namespace lockstep
