#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/checkpoint/joined_weights.h"
#include "lockstep/detail/checkpoint/checkpoint_content.h"

namespace lockstep {

/// One file of a checkpoint, before it is written.
struct PartFile {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::function<void(const std::function<void(std::string_view)>&)> write;
};

/// The files that one rank contributes to a checkpoint. They read `content` and `joined`, which must outlive them.
/// @param joined  the models' weights, if `content.joins_weight_parts`
/// @throws Error  if a name or a tensor is invalid
std::vector<PartFile> part_files(const CheckpointContent& content, int rank, int world_size,
                                 const std::vector<JoinedWeights>& joined);

/// Writes `parts` into `folder` and syncs each. Checks first that there is space for all of them.
/// @return  their entries for the manifest
std::map<std::string, Manifest::File> write_parts(FileSystem& files, const std::string& folder,
                                                  const std::vector<PartFile>& parts);

}  // namespace lockstep
