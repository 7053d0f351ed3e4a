#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/base/files/file_system.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/detail/checkpoint/checkpoint_content.h"
#include "lockstep/detail/checkpoint/checkpoint_names.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// One save on one rank, from its files to the published folder.
struct CheckpointSave {
  FileSystem& files;
  const Membership& membership;
  std::string output_dir;
  CheckpointNames names;
  int save_total_limit = 0;
  std::chrono::milliseconds timeout{0};
  std::string keys;         ///< prefix of this save's keys in the store, equal on all ranks
  std::string last_keys;    ///< of the previous save, which every rank has finished; empty for the first
  std::int64_t number = 0;  ///< number of this save
  /// For CheckpointContent::joins_weight_parts: a group of these ranks that nobody else uses. Ended by a failure.
  Communicator* joining = nullptr;
};

/// Writes this rank's part of `content`; rank 0 publishes after all ranks have written. Every rank calls it.
/// @return  the published path
/// @throws Error  on every rank, if one of them failed
std::string run_save(const CheckpointSave& save, const CheckpointContent& content);

}  // namespace lockstep
