#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/train/batch_rows.h"
#include "lockstep/detail/train/common_generator.h"
#include "lockstep/detail/train/prepared_loader.h"
#include "lockstep/detail/train/torch_loader_data.h"
#include "lockstep/detail/train/torch_loader_kind.h"

namespace lockstep {
namespace detail {

/// @throws Error  if a loader with these options cannot be divided among ranks
void check_torch_loader(const LoaderShare& share, std::int64_t batch_size, bool has_fixed_order);

}  // namespace detail

/// This rank's batches of a torch::data loader, in Accelerate's order. Each range-for is one pass over the loader. It
/// begins with a broadcast, so that rank 0's generator decides the order on every rank. Copies refer to one loader.
///
/// Such a loader cannot be divided, because its sampler is not accessible. So each rank reads all batches of a round
/// and keeps its own: of batches 0, 1, 2, ... rank r keeps r, r + world_size, ...; with `split_batches` its part of
/// each batch. If the last round is incomplete, `even_batches` fills it with the first samples of the pass, or the
/// loader's own `drop_last` drops it; else ranks end at different times (see Accelerator::join_uneven_inputs). A loader
/// over TorchDataSampler, or over LibTorch's distributed samplers, already is a rank's share: its batches are returned
/// unchanged.
///
/// The sampler must give the same order on every rank. LibTorch's RandomSampler and SequentialSampler do, and so does a
/// sampler that draws from LibTorch's generator in `reset`.
template <typename Loader>
class PreparedTorchLoader {
  static_assert(!detail::TorchLoaderKind<Loader>::kIsStateful,
                "a loader of a stateful dataset (ChunkDataset) cannot be prepared, since its dataset decides what "
                "comes: give that dataset's samplers this rank and the number of ranks, and use the loader as it is");

 public:
  using Batch = typename Loader::BatchType;
  class Iterator;
  struct End {};

  /// @param read_ahead  batches of this rank that are read before one is returned: gradient accumulation must know
  /// early that the end is near
  /// Collective. @throws Error  if the batch size cannot be split, if workers return batches in no fixed order, or if
  /// the ranks' loaders differ
  PreparedTorchLoader(std::shared_ptr<Loader> loader, const LoaderShare& share,
                      std::shared_ptr<Communicator> communicator, std::int64_t read_ahead,
                      std::shared_ptr<ActiveLoaders> active)
      : reading_(std::make_shared<Reading>(std::move(loader), share, std::move(communicator), read_ahead,
                                           std::move(active))) {}

  /// Collective, unless the loader already is a rank's share.
  Iterator begin() { return Iterator(*reading_); }
  End end() const { return {}; }
  /// The next range-for reads and discards the first `batches` of this rank.
  void skip_first_batches(std::int64_t batches) { reading_->skip(batches); }

 private:
  class Reading;
  std::shared_ptr<Reading> reading_;
};

// Reads batches, for a PreparedTorchLoader and its copies.
template <typename Loader>
class PreparedTorchLoader<Loader>::Reading {
 public:
  Reading(std::shared_ptr<Loader> loader, const LoaderShare& share, std::shared_ptr<Communicator> communicator,
          std::int64_t read_ahead, std::shared_ptr<ActiveLoaders> active)
      : loader_(std::move(loader)),
        share_(share),
        communicator_(std::move(communicator)),
        read_ahead_(read_ahead),
        active_(std::move(active)) {
    const auto& options = loader_->options();
    detail::compare_torch_loader(*communicator_, detail::torch_loader_data(*loader_), share_,
                                 {batch_size(), options.drop_last});
    if (kIsShare) share_.world_size = 1;
    detail::check_torch_loader(share_, batch_size(), options.workers < 2 || options.enforce_ordering);
    position_.samples_before = -1;  // gathered tensors stay in the order of ranks
    position_.is_kept = false;
  }
  ~Reading() { active_->left(position_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void skip(std::int64_t batches) { skip_ = batches; }

  void begin() {
    first_.clear();
    ready_.clear();
    has_ended_ = false;
    pass_ = {};
    const auto start = [this] { next_.emplace(loader_->begin()); };
    if (kIsShare) {
      start();
    } else {
      with_common_generator(*communicator_, start);
    }
    for (std::int64_t left = std::exchange(skip_, 0); left > 0 && read(); --left) {
    }
  }

  // The next batch of this rank; nothing at the end.
  std::optional<Batch> take() {
    while (!has_ended_ && static_cast<std::int64_t>(ready_.size()) <= read_ahead_) {
      if (auto own = read()) ready_.push_back(std::move(*own));
    }
    if (ready_.empty()) {
      if (active_->left(position_)) active_->ended = pass_;
      return std::nullopt;
    }
    Own own = std::move(ready_.front());
    ready_.pop_front();
    position_.unrepeated = own.unrepeated;
    position_.samples = own.unrepeated < 0 ? -1 : Rows::count(own.batch);
    if (own.unrepeated >= 0) pass_.samples += position_.samples;
    if (own.unrepeated >= 0) pass_.repeated += position_.samples - own.unrepeated;
    position_.batches_left = static_cast<std::int64_t>(ready_.size());
    active_->returned(position_);
    return on_device(std::move(own.batch));
  }

 private:
  static constexpr bool kIsShare = detail::TorchLoaderKind<Loader>::kIsShare;
  using Rows = BatchRows<Batch>;
  struct Own {
    Batch batch;
    std::int64_t unrepeated;  // samples at its begin that are not repeated; -1: unknown
  };

  std::int64_t batch_size() const { return static_cast<std::int64_t>(loader_->options().batch_size); }

  std::optional<Own> read() {
    if (has_ended_) return std::nullopt;
    std::optional<Own> own = share_.world_size == 1 ? read_all() : share_.split_batches ? read_part() : read_round();
    if (!own) has_ended_ = true;
    return own;
  }

  bool is_over() { return *next_ == loader_->end(); }

  // The loader's next batch; nothing at the end.
  std::optional<Batch> pull() {
    if (is_over()) return std::nullopt;
    Batch batch = std::move(**next_);
    ++*next_;
    return batch;
  }

  std::optional<Own> read_all() {
    auto batch = pull();
    if (!batch) return std::nullopt;
    return Own{std::move(*batch), -1};
  }

  // Reads one batch and returns this rank's part of it.
  std::optional<Own> read_part() {
    auto batch = pull();
    if (!batch) return std::nullopt;
    const std::int64_t part = batch_size() / share_.world_size;
    const std::int64_t rows = Rows::count(*batch);
    const std::int64_t begin = part * share_.rank;
    const std::int64_t unrepeated = std::clamp<std::int64_t>(rows - begin, 0, part);
    if (first_.empty() && share_.even_batches) first_.push_back(*batch);
    if (unrepeated == part || !share_.even_batches) {
      if (unrepeated == 0) return std::nullopt;
      return Own{Rows::slice(*batch, begin, unrepeated), unrepeated};
    }
    // The last batch: the first samples fill the missing places, rank after rank.
    const std::int64_t missing_before = std::max<std::int64_t>(0, begin - rows);
    Batch filling = first_samples(missing_before, part - unrepeated);
    if (unrepeated == 0) return Own{std::move(filling), 0};
    return Own{Rows::join(Rows::slice(*batch, begin, unrepeated), filling), unrepeated};
  }

  // Reads one batch for each rank.
  std::optional<Own> read_round() {
    std::optional<Batch> own;
    std::int64_t count = 0;
    std::int64_t last_rows = batch_size();
    const bool is_first_round = first_.empty();
    for (; count < share_.world_size; ++count) {
      auto batch = pull();
      if (!batch) break;
      last_rows = Rows::count(*batch);
      if (is_first_round && share_.even_batches) first_.push_back(*batch);
      if (count == share_.rank) own = std::move(batch);
    }
    const std::int64_t missing = last_rows < batch_size() && is_over() ? batch_size() - last_rows : 0;
    if (count == 0 || (count < share_.world_size && loader_->options().drop_last)) return std::nullopt;
    const bool is_filled = share_.even_batches && (share_.rank >= count || (share_.rank == count - 1 && missing > 0));
    if (!is_filled) return whole(std::move(own));
    if (share_.rank >= count) {
      return Own{first_samples(missing + (share_.rank - count) * batch_size(), batch_size()), 0};
    }
    return Own{Rows::join(*own, first_samples(0, missing)), last_rows};
  }

  static std::optional<Own> whole(std::optional<Batch> batch) {
    if (!batch) return std::nullopt;
    const std::int64_t rows = Rows::count(*batch);
    return Own{std::move(*batch), rows};
  }

  // `count` of the pass's first samples, from number `begin` on; repeats them if they are too few.
  Batch first_samples(std::int64_t begin, std::int64_t count) const {
    Batch all = first_.front();
    for (std::size_t i = 1; i < first_.size(); ++i) all = Rows::join(all, first_[i]);
    const std::int64_t total = Rows::count(all);
    std::optional<Batch> result;
    while (count > 0) {
      const std::int64_t from = begin % total;
      const std::int64_t length = std::min(count, total - from);
      Batch part = Rows::slice(all, from, length);
      result = result ? Rows::join(*result, part) : std::move(part);
      begin += length;
      count -= length;
    }
    return std::move(*result);
  }

  Batch on_device(Batch batch) const {
    if (share_.device.is_cpu()) return batch;
    std::vector<at::Tensor> tensors = tensors_of(batch);
    for (at::Tensor& tensor : tensors) tensor = tensor.to(share_.device, /*non_blocking=*/true);
    return with_tensors(std::move(batch), tensors);
  }

  std::shared_ptr<Loader> loader_;
  LoaderShare share_;
  std::shared_ptr<Communicator> communicator_;
  std::int64_t read_ahead_;
  std::shared_ptr<ActiveLoaders> active_;
  LoaderPosition position_;
  ActiveLoaders::Pass pass_;
  std::optional<decltype(std::declval<Loader&>().begin())> next_;
  std::vector<Batch> first_;  // of this pass: one batch of each rank, or only one
  std::deque<Own> ready_;
  bool has_ended_ = true;
  std::int64_t skip_ = 0;
};

template <typename Loader>
class PreparedTorchLoader<Loader>::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using pointer = Batch*;
  using reference = Batch&;

  Batch& operator*() { return *batch_; }
  Batch* operator->() { return &*batch_; }
  Iterator& operator++() {
    batch_ = reading_->take();
    return *this;
  }
  bool operator==(End) const { return !batch_.has_value(); }
  bool operator!=(End) const { return batch_.has_value(); }

 private:
  friend class PreparedTorchLoader;
  explicit Iterator(Reading& reading) : reading_(&reading) {
    reading.begin();
    batch_ = reading.take();
  }

  Reading* reading_;
  std::optional<Batch> batch_;
};

}  // namespace lockstep
