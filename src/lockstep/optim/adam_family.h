#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// What Adam and AdamW have in common: everything but the place of the weight decay. `Torch` is LibTorch's optimizer,
/// OptionsType and State are its options and its state of a parameter.
template <typename Torch, typename OptionsType, typename State, bool kDecoupled>
class AdamFamily : public FlatOptimizer {
 public:
  using Options = OptionsType;

  /// @throws Error  if a rate is negative, or a beta outside [0, 1)
  explicit AdamFamily(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults = {});
  explicit AdamFamily(std::vector<at::Tensor> parameters, Options defaults = {});

  /// In LibTorch's own format, so that either can load what the other saved.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::size_t num_buffers(const torch::optim::OptimizerOptions& options) const override;
  const char* buffer_name(std::size_t index) const override;
  void update_run(const torch::optim::OptimizerOptions& options, const UpdateRun& run, const GradientSource& gradient,
                  std::size_t begin, std::size_t end) const override;
  void update_tensor(const torch::optim::OptimizerOptions& options, at::Tensor& parameter, const at::Tensor& gradient,
                     const Buffers& buffers, std::int64_t step, bool first) const override;
  std::unique_ptr<torch::optim::OptimizerParamState> make_torch_state(const Buffers& buffers,
                                                                      std::int64_t step) const override;
  void read_torch_state(const torch::optim::OptimizerParamState& state, Buffers& buffers,
                        std::int64_t& step) const override;
  void set_torch_step(torch::optim::OptimizerParamState& state, std::int64_t step) const override;
  OptionValues option_values(const torch::optim::OptimizerOptions& options) const override;
  void set_option_values(torch::optim::OptimizerOptions& options, const OptionValues& values) const override;
};

}  // namespace lockstep
