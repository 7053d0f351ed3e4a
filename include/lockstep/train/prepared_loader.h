#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/data_loader.h"

namespace lockstep {

/// Tells the Accelerator the position of the batch that a prepared loader returned last.
struct LoaderPosition {
  std::int64_t samples_before = 0;  ///< this rank's samples before the batch; -1: samples are not dealt one by one
  std::int64_t batches_left = 0;    ///< batches after it
  std::int64_t dataset_size = 0;
  bool repeats_samples = false;  ///< the sampler fills the ranks' last batches with earlier samples
  std::int64_t unrepeated = -1;  ///< samples at the begin of the batch that are not repeated; -1: unknown
  bool is_kept = true;           ///< save_state saves the position
};

/// The loaders that are being read; the last one returned a batch most recently.
using ActiveLoaders = std::vector<const LoaderPosition*>;

struct LoaderShare {
  int rank = 0;
  int world_size = 1;
  /// true: every rank gets the same number of batches, by repeating samples at the end of an epoch. false: no sample is
  /// repeated, and some ranks may have one batch less (see Accelerator::join_uneven_inputs).
  bool even_batches = true;
  bool split_batches = false;     ///< the loader's batch size is the total of all ranks
  c10::Device device{c10::kCPU};  ///< device of the returned batches; batches on the CPU are moved there
};

/// This rank's share of a loader: its dataset and options, with a DistributedSampler. Each range-for is the next epoch,
/// in another order. Copies refer to one loader. One thread at a time.
class PreparedLoader {
 public:
  class Iterator;
  class Reading;
  using End = DataLoader::End;

  /// @throws Error  if the loader has a sampler other than the one of `shuffle`, or if the batch size cannot be split
  PreparedLoader(const DataLoader& loader, const LoaderShare& share, const std::shared_ptr<ActiveLoaders>& active);

  std::int64_t size() const;  ///< batches per epoch on this rank
  std::int64_t total_batch_size() const;
  const std::shared_ptr<const Dataset>& dataset() const;

  Iterator begin();
  End end() const { return {}; }
  /// Selects the epoch, and so the order, of the next range-for; later ones count on from there.
  void set_epoch(std::int64_t epoch);
  /// The epoch of the next range-for: loops over epochs continue with it after `load_state`.
  std::int64_t next_epoch() const;

  /// The position after the batch that was returned last; after a whole epoch, the begin of the next.
  SamplerState state() const;
  /// The next range-for continues from `state`, without reading skipped batches. @throws Error  as Sampler::load_state
  void load_state(const SamplerState& state);
  /// The next range-for skips the first `batches` of its epoch without reading them.
  void skip_first_batches(std::int64_t batches);

  /// The state that copies share. Internal.
  const std::shared_ptr<Reading>& reading() const { return reading_; }

 private:
  std::shared_ptr<Reading> reading_;
};

/// Reads batches, for a PreparedLoader and its copies. Internal.
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
  std::shared_ptr<ActiveLoaders> active_;  // of the Accelerator: its loaders in use
  std::int64_t next_epoch_ = 0;
  bool is_within_epoch_ = false;  // the epoch has batches left, or had when its loop ended
  bool is_loaded_ = false;        // the next range-for begins at the sampler's position
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
