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
  ~LoaderReading() { active_->left(position_); }
  LoaderReading(const LoaderReading&) = delete;
  LoaderReading& operator=(const LoaderReading&) = delete;

  const DataLoader& loader() const { return loader_; }
  std::int64_t batch_size() const { return loader_.options().batch_size; }
  int world_size() const { return world_size_; }
  c10::Device device() const { return device_; }

  /// Begins the next epoch.
  DataLoader::Iterator begin();
  /// How many passes have begun.
  std::int64_t passes() const { return passes_; }
  std::int64_t next_epoch() const { return next_epoch_; }
  void set_next_epoch(std::int64_t epoch) { next_epoch_ = epoch; }
  SamplerState state() const;
  void load_state(const SamplerState& state);

  /// The epoch's batch number `index` was returned.
  void handed_out(std::int64_t index);
  /// All batches of the epoch were returned.
  void ended();
  /// Nobody holds an iterator of pass number `pass`, counted from 1, any more: a loop that breaks leaves the loader,
  /// too.
  void left(std::int64_t pass);

 private:
  void left();

  int rank_;
  int world_size_;
  c10::Device device_;
  DataLoader loader_;
  LoaderPosition position_;
  std::shared_ptr<ActiveLoaders> active_;  // of the Accelerator: its loaders in use
  std::int64_t passes_ = 0;
  std::int64_t taken_ = -1;  // samples of the epoch up to the batch that was returned last; -1: unknown
  std::int64_t next_epoch_ = 0;
  bool is_within_epoch_ = false;  // the epoch has batches left, or had when its loop ended
  bool is_loaded_ = false;        // the next range-for begins at the sampler's position
};

}  // namespace lockstep
