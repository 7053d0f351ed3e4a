#include "lockstep/data/data_loader.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/data/batch_prefetcher.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/sequential_sampler.h"

namespace lockstep {
namespace {

using Indices = std::vector<std::int64_t>;

void check(const DataLoaderOptions& options, const Sampler* sampler, const Dataset* dataset) {
  const auto require = [](bool holds, const std::string& what, const char* fix) {
    if (!holds) throw Error(what, "DataLoader", fix);
  };
  require(dataset != nullptr, "no dataset", "give the loader a dataset");
  require(options.batch_size > 0, fmt::format("batch_size {} is not positive", options.batch_size),
          "give a batch size of at least 1");
  require(options.num_workers >= 0, fmt::format("num_workers {} is negative", options.num_workers),
          "give 0 to read in the caller's thread, or a number of threads");
  require(options.prefetch_factor > 0, fmt::format("prefetch_factor {} is not positive", options.prefetch_factor),
          "let each worker be at least 1 batch ahead");
  require(options.timeout_s > 0, fmt::format("timeout_s {} is not positive", options.timeout_s),
          "give the longest wait for a batch in seconds");
  require(!options.pin_memory || at::globalContext().hasCUDA(),
          "pin_memory was asked for, but this LibTorch sees no CUDA device",
          "leave pin_memory off, or build against a LibTorch with CUDA on a host with a GPU");
  if (sampler == nullptr) return;
  require(!options.shuffle, "sampler option is mutually exclusive with shuffle",
          "let the sampler shuffle, or leave the sampler out");
  require(
      sampler->dataset_size() == dataset->size(),
      fmt::format("the sampler is for {} samples, but the dataset has {}", sampler->dataset_size(), dataset->size()),
      "make the sampler with this dataset's size()");
}

std::shared_ptr<Sampler> sampler_for(const DataLoaderOptions& options, const Dataset& dataset) {
  if (options.shuffle) return std::make_shared<RandomSampler>(dataset.size(), options.seed);
  return std::make_shared<SequentialSampler>(dataset.size());
}

std::string describe_indices(const Indices& indices) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(indices.size(), kShown);
  return fmt::format("batch of samples {}{}", fmt::join(indices.begin(), indices.begin() + shown, ", "),
                     indices.size() > shown ? fmt::format(", … ({} in all)", indices.size()) : "");
}

Batch pin(Batch batch) {
  for (auto& field : batch) field.second = field.second.pin_memory();
  return batch;
}

// Runs in worker threads, so it only uses its arguments.
Batch load(const Dataset& dataset, const DataLoaderOptions& options, const Indices& indices) {
  Batch batch;
  if (options.collate) {
    std::vector<Example> examples;
    examples.reserve(indices.size());
    for (const std::int64_t index : indices) examples.push_back(dataset.get(index));
    batch = options.collate(std::move(examples));
  } else {
    batch = dataset.get_batch(indices);
  }
  return options.pin_memory ? pin(std::move(batch)) : batch;
}

// Adds the batch to an error, so that the text does not depend on whether a worker or the caller loaded it.
Batch load_named(const Dataset& dataset, const DataLoaderOptions& options, const Indices& indices) {
  try {
    return load(dataset, options, indices);
  } catch (const TimeoutError& error) {
    throw TimeoutError(error.happened(), error.where() + ", " + describe_indices(indices), error.fix());
  } catch (const Error& error) {
    throw Error(error.happened(), error.where() + ", " + describe_indices(indices), error.fix());
  } catch (const std::exception& error) {
    throw Error(error.what(), "DataLoader, " + describe_indices(indices),
                "look at these samples, and at the dataset's or the collate function's code");
  }
}

}  // namespace

// The state of a loader, at an address that stays valid when the loader is moved.
class DataLoader::Reader {
 public:
  Reader(std::shared_ptr<const Dataset> read, DataLoaderOptions how, std::shared_ptr<Sampler> order)
      : dataset(std::move(read)), options(std::move(how)), sampler(std::move(order)) {
    if (batches() == 0 && sampler->size() > 0) {
      log_warning("DataLoader: drop_last leaves no batch of {} in an epoch of {} samples", options.batch_size,
                  sampler->size());
    }
  }

  // Starts an iteration and returns its number.
  std::int64_t begin() {
    start_ = sampler->begin_epoch();
    taken_ = asked_ = start_.position;
    const std::int64_t left = sampler->size() - taken_;
    end_ = options.drop_last ? taken_ + left / options.batch_size * options.batch_size : sampler->size();
    if (workers_) workers_->cancel();
    if (options.num_workers > 0 && !workers_) {
      workers_ = std::make_unique<BatchPrefetcher>(
          options.num_workers,
          [from = dataset, how = options](const Indices& indices) { return load_named(*from, how, indices); });
    }
    return ++iteration_;
  }

  // Puts the next batch of iteration `iteration` in `batch`; false if it has ended.
  bool next(std::int64_t iteration, Batch& batch) {
    if (iteration != iteration_ || taken_ == end_) return false;
    const trace_recorder::Scope trace(TraceKind::Data);
    const std::int64_t count = std::min(options.batch_size, end_ - taken_);
    try {
      batch = workers_ ? take() : load_named(*dataset, options, ask());
    } catch (...) {
      end_ = taken_;
      throw;
    }
    taken_ += count;
    sampler->advance(count);
    return true;
  }

  std::int64_t batches() const {
    const std::int64_t samples = sampler->size() + (options.drop_last ? 0 : options.batch_size - 1);
    return samples / options.batch_size;
  }

  const std::shared_ptr<const Dataset> dataset;
  const DataLoaderOptions options;
  const std::shared_ptr<Sampler> sampler;

 private:
  Indices ask() {
    Indices indices = sampler->indices(start_, asked_, std::min(options.batch_size, end_ - asked_));
    asked_ += static_cast<std::int64_t>(indices.size());
    return indices;
  }

  Batch take() {
    const auto ahead =
        static_cast<std::size_t>(options.num_workers) * static_cast<std::size_t>(options.prefetch_factor);
    while (asked_ < end_ && workers_->outstanding() < ahead) workers_->submit(ask());
    const auto timeout = std::chrono::duration<double>(std::min(options.timeout_s, kLongestTimeout_s));
    return workers_->take(Deadline::after(std::chrono::ceil<std::chrono::milliseconds>(timeout)));
  }

  static constexpr double kLongestTimeout_s = 365.0 * 24 * 3600;  // the limit of Deadline

  SamplerState start_;          // of this iteration
  std::int64_t iteration_ = 0;  // its number
  std::int64_t asked_ = 0;      // position in the epoch up to which batches were requested,
  std::int64_t taken_ = 0;      // and up to which they were handed out
  std::int64_t end_ = 0;        // where the iteration ends
  std::unique_ptr<BatchPrefetcher> workers_;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options,
                       std::shared_ptr<Sampler> sampler) {
  check(options, sampler.get(), dataset.get());
  if (!sampler) sampler = sampler_for(options, *dataset);
  reader_ = std::make_unique<Reader>(std::move(dataset), std::move(options), std::move(sampler));
}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&& other) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&& other) noexcept = default;

std::int64_t DataLoader::size() const { return reader_->batches(); }
const DataLoaderOptions& DataLoader::options() const { return reader_->options; }
const std::shared_ptr<const Dataset>& DataLoader::dataset() const { return reader_->dataset; }
const std::shared_ptr<Sampler>& DataLoader::sampler() const { return reader_->sampler; }
SamplerState DataLoader::state() const { return reader_->sampler->state(); }
void DataLoader::load_state(const SamplerState& state) { reader_->sampler->load_state(state); }

DataLoader::Iterator DataLoader::begin() { return Iterator(reader_.get()); }

DataLoader::Iterator::Iterator(Reader* reader) : reader_(reader), iteration_(reader->begin()) { ++*this; }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (!reader_->next(iteration_, batch_)) reader_ = nullptr;
  return *this;
}

}  // namespace lockstep
