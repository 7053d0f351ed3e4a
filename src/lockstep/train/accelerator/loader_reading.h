#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "lockstep/data/data_loader.h"
#include "lockstep/detail/train/loader_share.h"

namespace lockstep {

/// Reads batches, for a PreparedLoader and its copies.
class LoaderReading {
 public:
  LoaderReading(const DataLoader& loader, const LoaderShare& share, std::shared_ptr<ActiveLoaders> active);
  ~LoaderReading() { finished(); }
  LoaderReading(const LoaderReading&) = delete;
  LoaderReading& operator=(const LoaderReading&) = delete;

  const DataLoader& loader() const { return loader_; }
  std::int64_t batch_size() const { return loader_.options().batch_size; }
  int world_size() const { return world_size_; }
  c10::Device device() const { return device_; }

  /// Begins the next epoch.
  DataLoader::Iterator begin();
  std::int64_t next_epoch() const { return next_epoch_; }
  void set_next_epoch(std::int64_t epoch) { next_epoch_ = epoch; }
  SamplerState state() const;
  void load_state(const SamplerState& state);

  /// The epoch's batch number `index` was returned.
  void handed_out(std::int64_t index);
  /// All batches of the epoch were returned.
  void ended();

 private:
  void finished();

  int world_size_;
  c10::Device device_;
  DataLoader loader_;
  LoaderPosition position_;
  std::shared_ptr<ActiveLoaders> active_;  // of the Accelerator: its loaders in use
  std::int64_t next_epoch_ = 0;
  bool is_within_epoch_ = false;  // the epoch has batches left, or had when its loop ended
  bool is_loaded_ = false;        // the next range-for begins at the sampler's position
};

}  // namespace lockstep
