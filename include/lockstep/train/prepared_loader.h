#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/data_loader.h"

namespace lockstep {

/// What a prepared loader tells the Accelerator of the batch that it handed out last.
struct LoaderPosition {
  std::int64_t samples_before = 0;  ///< that this rank took before the batch; -1: samples were not dealt out one by one
  std::int64_t batches_left = 0;    ///< after it
  std::int64_t dataset_size = 0;
  bool repeats_samples = false;  ///< the sampler fills the last batches of ranks with samples that came before
  std::int64_t unrepeated = -1;  ///< samples at the batch's begin that did not come before; -1: not said
  bool is_kept = true;           ///< save_state keeps it
};

/// Loaders that are being read, the one that handed out a batch last at the end.
using ActiveLoaders = std::vector<const LoaderPosition*>;

struct LoaderShare {
  int rank = 0;
  int world_size = 1;
  /// true: every rank gets the same number of batches, by repeating samples at the end of an epoch. false: no sample
  /// comes twice, and some ranks may have a batch less (see Accelerator::join_uneven_inputs).
  bool even_batches = true;
  bool split_batches = false;     ///< the loader's batch size is that of all ranks together
  c10::Device device{c10::kCPU};  ///< where batches are handed out; those on the CPU go there
};

/// This rank's share of a loader: the same dataset and options over a DistributedSampler. Each range-for is the next
/// epoch, in an order of its own. Copies are the same loader. One thread at a time.
class PreparedLoader {
 public:
  class Iterator;
  class Reading;
  using End = DataLoader::End;

  /// @throws Error  if the loader has a sampler other than that of `shuffle`, or the batch size cannot be split
  PreparedLoader(const DataLoader& loader, const LoaderShare& share, const std::shared_ptr<ActiveLoaders>& active);

  std::int64_t size() const;  ///< batches per epoch on this rank
  std::int64_t total_batch_size() const;
  const std::shared_ptr<const Dataset>& dataset() const;

  Iterator begin();
  End end() const { return {}; }
  /// The order of the next range-for; those after it count on from there.
  void set_epoch(std::int64_t epoch);
  /// That number: where a loop over epochs goes on after `load_state`.
  std::int64_t next_epoch() const;

  /// The position after the batch that was handed out last; after a whole epoch, the begin of the next.
  SamplerState state() const;
  /// The next range-for goes on from there, at no cost. @throws Error  as Sampler::load_state
  void load_state(const SamplerState& state);
  /// The next range-for leaves out the first `batches` of its epoch, without reading them.
  void skip_first_batches(std::int64_t batches);

  /// What copies share. Internal.
  const std::shared_ptr<Reading>& reading() const { return reading_; }

 private:
  std::shared_ptr<Reading> reading_;
};

/// What reads, for a PreparedLoader and its copies. Internal.
class PreparedLoader::Reading {
 public:
  Reading(const DataLoader& loader, const LoaderShare& share, std::shared_ptr<ActiveLoaders> active);
  ~Reading() { finished(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  SamplerState state() const;
  void load_state(const SamplerState& state);

 private:
  friend class PreparedLoader;
  std::int64_t batch_size() const { return loader_.options().batch_size; }
  void handed_out(std::int64_t index);
  void ended();
  void finished();

  int world_size_;
  c10::Device device_;
  DataLoader loader_;
  LoaderPosition position_;
  std::shared_ptr<ActiveLoaders> active_;  // the Accelerator's: whose batch it is at work on
  std::int64_t next_epoch_ = 0;
  bool is_within_epoch_ = false;  // batches of it are to come, or were to come when it was left
  bool is_loaded_ = false;        // the sampler's position is where the next range-for begins
};

class PreparedLoader::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using pointer = Batch*;
  using reference = Batch&;

  Batch& operator*() { return *inner_; }
  Batch* operator->() { return &*inner_; }
  Iterator& operator++();
  bool operator==(End end) const { return inner_ == end; }
  bool operator!=(End end) const { return inner_ != end; }

 private:
  friend class PreparedLoader;
  Iterator(Reading& reading, DataLoader::Iterator inner, std::int64_t index);
  void tell();

  Reading* reading_;
  DataLoader::Iterator inner_;
  std::int64_t index_;
};

}  // namespace lockstep
