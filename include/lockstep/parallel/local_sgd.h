// Training that communicates only in some steps: ranks train alone for a while, and then average.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/communication_hook.h"

namespace lockstep {

/// The settings of PyTorch's PostLocalSGDState, under their names and with their defaults.
struct PostLocalSGDOptions {
  std::int64_t start_localSGD_iter = 1000;    ///< in the steps before it, gradients are averaged over all ranks
  std::shared_ptr<Communicator> subgroup;     ///< averages gradients afterwards; null: the ranks of this host
  bool post_local_gradient_allreduce = true;  ///< false: afterwards no gradients are averaged
};

/// Averages gradients over all ranks at first, and later only within a subgroup, such as the ranks of a host. A model
/// averager keeps the subgroups together (Lin, Stich, Patel and Jaggi, 2020, arXiv:1808.07217). On one host the default
/// subgroup contains all ranks, so that nothing changes after the first steps: name smaller subgroups there, or average
/// no gradients.
std::unique_ptr<CommunicationHook> post_local_sgd_hook(const PostLocalSGDOptions& options);

/// Averages parameters over the ranks in every `period`-th step.
class PeriodicModelAverager {
 public:
  /// @param warmup_steps  number of steps before the first average, which is in step `warmup_steps`
  /// @param group         default: the group of init_process_group
  /// @throws Error  if `period` is below 1 or `warmup_steps` below 0
  explicit PeriodicModelAverager(std::int64_t period, std::int64_t warmup_steps = 0,
                                 std::shared_ptr<Communicator> group = nullptr);
  /// Call it after each step of the optimizer, on every rank.
  void average_parameters(const std::vector<at::Tensor>& parameters);
  std::int64_t step() const { return step_; }
  /// For Accelerator::register_for_checkpointing: the number of steps. @throws Error  if `text` is not a number of
  /// steps
  std::string state_dict() const { return std::to_string(step_); }
  void load_state_dict(const std::string& text);

 private:
  std::int64_t period_, warmup_steps_, step_ = 0;
  std::shared_ptr<Communicator> group_;
};

struct DiLoCoOptions {
  std::int64_t sync_every = 500;  ///< steps that each rank makes alone
  double outer_lr = 0.7;
  double outer_momentum = 0.9;  ///< momentum of the outer Nesterov SGD
};

/// DiLoCo (Douillard et al., 2023, arXiv:2311.08105): each rank trains alone for `sync_every` steps with its own
/// optimizer. The average change of the weights over all ranks is then the gradient of an outer SGD with Nesterov
/// momentum, which updates the weights of the last synchronisation. It needs one message every `sync_every` steps
/// instead of one in each step.
///
/// Gradients are not averaged: give DistributedDataParallel `noop_hook()`, or use the plain model.
class DiLoCo {
 public:
  /// Collective. @param parameters  equal on all ranks, as after DistributedDataParallel's construction
  /// @throws Error  if an option is invalid, or, on every rank, if the parameters are not equal
  DiLoCo(std::vector<at::Tensor> parameters, DiLoCoOptions options = {}, std::shared_ptr<Communicator> group = nullptr);
  /// Call it after each step of the inner optimizer, on every rank. @return  whether the ranks synchronised
  bool step();
  /// For Accelerator::register_for_checkpointing: the weights of the last synchronisation, the outer momentum and the
  /// number of steps, as bytes; equal on all ranks. @throws Error  if `bytes` are not such a state for these parameters
  std::string state_dict() const;
  void load_state_dict(const std::string& bytes);

 private:
  void meet();

  std::vector<at::Tensor> parameters_, met_at_, momentum_;
  DiLoCoOptions options_;
  std::int64_t steps_ = 0;
  std::shared_ptr<Communicator> group_;
};

}  // namespace lockstep
