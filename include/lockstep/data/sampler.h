#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// The state of a sampler, in plain numbers. Save it, and the order of samples continues exactly where it stopped.
struct SamplerState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t position = 0;      ///< samples of this epoch that this rank has taken
  std::int64_t dataset_size = 0;  ///< checked when the state is loaded
  std::int64_t num_replicas = 1;  ///< checked when the state is loaded
};

/// The order in which one rank takes samples: a function of (seed, epoch), and a position in it.
///
/// Every epoch is computed from its number, so a return to any position costs no more than the start of the epoch. An
/// iteration is one `begin_epoch` and what follows. It starts at the first sample; the first iteration after
/// `load_state` starts at the loaded position. A `set_epoch` or `load_state` during an iteration takes effect at the
/// next one. One thread at a time.
class Sampler {
 public:
  virtual ~Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Samples per epoch on this rank; the same for every epoch.
  std::int64_t size() const { return size_; }
  std::int64_t dataset_size() const { return dataset_size_; }
  std::int64_t num_replicas() const { return num_replicas_; }
  std::uint64_t seed() const { return seed_; }
  std::int64_t epoch() const { return epoch_; }

  /// Chooses the order of the next iteration. Call it before each epoch with the same number on every rank. If `epoch`
  /// is the one that `load_state` brought, the position stays.
  /// @throws Error  if `epoch` is negative
  void set_epoch(std::int64_t epoch);

  /// The dataset indices of the whole epoch, in order. The position does not change.
  std::vector<std::int64_t> indices() const { return indices(state(), 0, size_); }
  /// The indices at [first, first + count) for the seed and epoch in `of`, cut at the end of the epoch.
  std::vector<std::int64_t> indices(const SamplerState& of, std::int64_t first, std::int64_t count) const;

  /// Starts an iteration, and returns where it starts. Called by the loader.
  SamplerState begin_epoch();
  /// Moves the position by `count` samples, which the caller has taken. Called by the loader.
  void advance(std::int64_t count);

  SamplerState state() const { return {seed_, epoch_, position_, dataset_size_, num_replicas_}; }
  /// Takes seed, epoch and position from `state`.
  /// @throws Error  if the state is for another dataset size or number of replicas, or its position is past the end
  void load_state(const SamplerState& state);

 protected:
  struct Shape {
    std::int64_t dataset_size = 0;
    std::int64_t num_replicas = 1;
    std::int64_t size = 0;  ///< samples per epoch on this rank
  };
  /// @param name  the class's name, for errors
  /// @throws Error  if the dataset is empty
  Sampler(std::string name, Shape shape, std::uint64_t seed);

 private:
  /// Writes the dataset indices at [first, first + count) of the epoch; the range is within [0, size()).
  virtual void do_indices(std::uint64_t seed, std::int64_t epoch, std::int64_t first, std::int64_t count,
                          std::int64_t* out) const = 0;
  /// The epoch of an iteration for which no epoch was chosen.
  virtual std::int64_t do_next_epoch(std::int64_t epoch) { return epoch; }

  std::string name_;
  std::int64_t dataset_size_;
  std::int64_t num_replicas_;
  std::int64_t size_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
  bool fresh_ = true;  // epoch and position were chosen, and no iteration has begun since then
};

}  // namespace lockstep
