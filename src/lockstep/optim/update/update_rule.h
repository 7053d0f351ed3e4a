#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/update/group_options.h"
#include "lockstep/optim/update/update_run.h"

namespace lockstep {

/// The buffers of one parameter. Those beyond the number that the options need are undefined.
using StateBuffers = std::array<at::Tensor, UpdateRun::kMaxBuffers>;

/// Parameters that tensor operations update, of one device and dtype, and whose state is of one age.
struct TensorUpdate {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::array<std::vector<at::Tensor>, UpdateRun::kMaxBuffers> buffers;  ///< [buffer][parameter]
  std::int64_t step = 0;
  bool first = false;  ///< the buffers are not set yet
};

/// One kind of optimizer: its buffers, its arithmetic and its options. FlatOptimizer does everything that all kinds
/// share.
class UpdateRule {
 public:
  using Options = torch::optim::OptimizerOptions;
  using TorchState = torch::optim::OptimizerParamState;
  using OptionValues = std::map<std::string, double>;

  virtual ~UpdateRule() = default;

  /// The number of buffers that the options need, and PyTorch's name of each; null past the last.
  virtual std::size_t num_buffers(const Options& options) const = 0;
  virtual const char* buffer_name(std::size_t index) const = 0;

  /// One update of elements [begin, end) of a run, by a kernel.
  virtual void update_run(const Options& options, const UpdateRun& run, const GradientSource& gradient,
                          std::size_t begin, std::size_t end) const = 0;
  /// One update of parameters by tensor operations over all of them at once, as a device wants it.
  virtual void update_tensors(const Options& options, const TensorUpdate& update) const = 0;

  /// Options by name; switches are 0 or 1. @throws Error  when they are set, if a value is invalid
  virtual OptionValues option_values(const Options& options) const = 0;
  virtual void set_option_values(Options& options, const OptionValues& values) const = 0;

  /// LibTorch's object for a parameter's state. Reading leaves `step` unchanged if the object has no step.
  virtual std::unique_ptr<TorchState> make_torch_state(const StateBuffers& buffers, std::int64_t step) const = 0;
  virtual void read_torch_state(const TorchState& state, StateBuffers& buffers, std::int64_t& step) const = 0;
  virtual void set_torch_step(TorchState& state, std::int64_t step) const = 0;

  /// LibTorch's optimizer of this kind, without state. Files are written by it.
  virtual std::unique_ptr<torch::optim::Optimizer> make_torch_optimizer(
      const std::vector<torch::optim::OptimizerParamGroup>& groups, const Options& defaults) const = 0;
  /// Reads a file that LibTorch's optimizer wrote into `optimizer`.
  virtual void load(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer) const = 0;
};

/// A rule whose peer in LibTorch is `Torch`, with options `TorchOptions` and `State` for each parameter.
template <typename Torch, typename TorchOptions, typename State>
class TorchRule : public UpdateRule {
 public:
  std::unique_ptr<torch::optim::Optimizer> make_torch_optimizer(
      const std::vector<torch::optim::OptimizerParamGroup>& groups, const Options& defaults) const final {
    auto optimizer = std::make_unique<Torch>(groups, static_cast<const TorchOptions&>(defaults));
    set_group_options(*optimizer, groups);
    return optimizer;
  }
  void load(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer) const final {
    torch::optim::serialize<State, TorchOptions>(archive, optimizer);
  }
};

}  // namespace lockstep
