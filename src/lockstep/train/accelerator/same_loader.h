#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/dataset.h"
#include "lockstep/detail/train/loader_share.h"

namespace lockstep {

/// What decides which samples a loader's batches have.
nlohmann::json loader_settings(const DataLoader& loader);

/// Compares the ranks' loaders, which share out one order of one dataset. Collective.
/// @param name  of the loader, for messages
/// @param data  null: unknown. @param settings  an object
/// @throws UsageError  on every rank, with the ranks and the first difference
void require_same_loader(Communicator& group, const std::string& name, const std::shared_ptr<const Dataset>& data,
                         const LoaderShare& share, nlohmann::json settings);

}  // namespace lockstep
