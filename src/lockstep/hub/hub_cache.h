#pragma once

#include <optional>
#include <string>

#include "lockstep/hub/hub_model.h"

namespace lockstep {

/// What the cache of huggingface_hub holds of the model `id` at `revision`, which it knows from an earlier download in
/// Python. The cache is read and never written.
/// @throws Error  if the cache does not have the model at this revision
HubModel cached_model(const HubSettings& settings, const std::string& id, const std::string& revision);

/// The path of a model's file in that cache; nothing if it is not there.
std::optional<std::string> cached_file(const HubSettings& settings, const HubModel& model, const std::string& name);

}  // namespace lockstep
