#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>

#include "lockstep/data/batch.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"

namespace lockstep {

struct DataLoaderOptions {
  std::int64_t batch_size = 1;  ///< samples
  bool shuffle = false;         ///< if no sampler is given: RandomSampler instead of SequentialSampler
  std::uint64_t seed = 0;       ///< seed of that RandomSampler
  bool drop_last = false;       ///< leave out the last batch of the epoch if it is smaller than the others
  int num_workers = 0;          ///< threads that read ahead; 0: the caller's thread reads on demand
  int prefetch_factor = 2;      ///< batches that each worker may be ahead
  bool pin_memory = false;      ///< put batches in page-locked memory, for faster copies to a CUDA device
  double timeout_s = 300.0;     ///< longest wait for a batch from a worker
  Collate collate = {};         ///< empty: the dataset's own `get_batch`, which stacks the samples
};

/// Reads a dataset in batches, in the order that a sampler gives:
///
///     DataLoaderOptions options;
///     options.batch_size = 100;
///     DataLoader loader(dataset, options, sampler);
///     for (int epoch = 0; epoch < epochs; ++epoch) {
///       sampler->set_epoch(epoch);
///       for (Batch& batch : loader) step(batch.at("images"), batch.at("labels"));
///     }
///
/// The batches and their order are equal, bit for bit, for any number of workers. Each range-for is one iteration, from
/// the start of the epoch or from the position given to `load_state`. A new iteration ends the one before, and so does
/// an exception. One thread at a time. The loader must outlive its iterators; it may be moved while they exist. Mirrors
/// `torch.utils.data.DataLoader`.
class DataLoader {
 public:
  class Iterator;
  struct End {};

  /// @param sampler  its `size()` samples make up an epoch; null: chosen by `options.shuffle`
  /// @throws Error  if a size in the options is not positive, if the sampler is for another dataset size or is given
  /// together with `shuffle`, if the dataset is empty, or if `pin_memory` is set without CUDA
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {},
                      std::shared_ptr<Sampler> sampler = nullptr);
  /// Waits at most 5 s for workers that are still in the dataset. A worker that hangs there is left behind: it ends
  /// when the dataset returns, and what it uses lives until then.
  ~DataLoader();
  DataLoader(DataLoader&& other) noexcept;
  DataLoader& operator=(DataLoader&& other) noexcept;

  /// Batches per epoch on this rank, like Python's `len(loader)`.
  std::int64_t size() const;
  const DataLoaderOptions& options() const;
  const std::shared_ptr<const Dataset>& dataset() const;
  const std::shared_ptr<Sampler>& sampler() const;

  /// Starts an iteration and reads its first batch.
  /// @throws Error  as the dataset does, with the batch and its samples named; other exceptions become an Error too
  /// @throws TimeoutError  if a worker does not deliver the batch within `timeout_s`
  Iterator begin();
  End end() const { return {}; }

  /// The position after the last batch that the iteration handed out. Loaded into this loader, or into another one with
  /// an equal dataset and world size, it makes the next iteration continue with the batch that would have followed.
  SamplerState state() const;
  /// Takes effect at the next iteration, at a cost that does not depend on the position. @throws Error  as
  /// Sampler::load_state
  void load_state(const SamplerState& state);

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

/// Visits the remaining batches of one epoch. `++` reads the next batch, and throws as `begin` does.
class DataLoader::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using pointer = Batch*;
  using reference = Batch&;

  Batch& operator*() { return batch_; }
  Batch* operator->() { return &batch_; }
  Iterator& operator++();
  bool operator==(End) const { return reader_ == nullptr; }
  bool operator!=(End) const { return reader_ != nullptr; }

 private:
  friend class DataLoader;
  explicit Iterator(Reader* reader);

  Reader* reader_;  // null after the last batch
  std::int64_t iteration_;
  Batch batch_;
};

}  // namespace lockstep
