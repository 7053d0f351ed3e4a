#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>

#include "lockstep/data/data_loader.h"
#include "lockstep/detail/train/loader_share.h"

namespace lockstep {

class LoaderReading;

/// This rank's share of a loader: its dataset and options, with a DistributedSampler. Each range-for is the next epoch,
/// in another order. Copies refer to one loader. One thread at a time.
class PreparedLoader {
 public:
  class Iterator;
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

 private:
  friend class AcceleratorState;

  std::shared_ptr<LoaderReading> reading_;  // which copies share
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
  Iterator(const std::shared_ptr<LoaderReading>& reading, DataLoader::Iterator inner, std::int64_t index);
  void tell();

  LoaderReading* reading_;
  std::shared_ptr<const void> in_use_;  // of all copies; the last one that goes ends the pass
  DataLoader::Iterator inner_;
  std::int64_t index_;
};

}  // namespace lockstep
