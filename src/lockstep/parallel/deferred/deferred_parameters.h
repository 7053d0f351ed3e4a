#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/deferred/deferred_weight.h"
#include "lockstep/parallel/fused/weights/read_watch.h"

namespace lockstep {

/// All parameters of this process that are not in memory yet. One is made when LibTorch is about to read it.
class DeferredParameters final : public ReadWatcher {
 public:
  static DeferredParameters& all();

  /// Takes the parameter's memory away.
  void add(const at::Tensor& parameter, std::shared_ptr<DeferredWeight> weight);
  /// Null if the parameter is in memory.
  std::shared_ptr<DeferredWeight> find(const at::Tensor& parameter);
  /// The parameter has got other elements.
  void forget(const at::Tensor& parameter);
  /// Forgets parameters that nobody else has.
  void forget_unused();

  std::size_t parameter_at(std::size_t memory, std::int64_t element) const override;
  void begin_read(std::size_t parameter) override;
  void end_read(std::size_t) noexcept override {}

 private:
  struct Entry {
    at::Tensor parameter;
    std::shared_ptr<DeferredWeight> weight;
    std::unique_ptr<WatchedParameters> watch;
  };

  std::mutex mutex_;
  std::map<std::size_t, Entry> entries_;
  std::size_t next_ = 0;
};

/// ", deferred: uniform_, mul_", which is equal on ranks that would make the parameter in the same way; empty if it is
/// in memory.
std::string deferred_text(const at::Tensor& parameter);

/// A module's deferred weights, which ranks make from the same random numbers.
class DeferredOfModule {
 public:
  /// Takes the states of random generators over from rank 0. Collective.
  /// @param parameters  with equal `deferred_text` on all ranks
  DeferredOfModule(Communicator& communicator, const std::vector<NamedTensor>& parameters);

  /// The others, which are in memory.
  const std::vector<at::Tensor>& in_memory() const { return in_memory_; }
  /// Makes those that `is_meant` names, if that has not happened yet.
  std::vector<at::Tensor> make(const std::function<bool(const at::Tensor&)>& is_meant) const;
  bool is_empty() const { return deferred_.empty(); }
  /// Compares those that the ranks have made; a rank that shares weights has perhaps made none. Collective.
  /// @throws Error  naming the first that differs; on every rank
  void check_made(Communicator& communicator) const;

 private:
  struct Deferred {
    NamedTensor parameter;
    std::shared_ptr<DeferredWeight> weight;
  };

  std::vector<Deferred> deferred_;
  std::vector<at::Tensor> in_memory_;
};

}  // namespace lockstep
