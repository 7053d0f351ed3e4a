// Training that communicates in some steps only: ranks go on alone for a while, then meet in the middle.
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
  std::int64_t start_localSGD_iter = 1000;    ///< the steps before it average gradients over all ranks
  std::shared_ptr<Communicator> subgroup;     ///< whose gradients are averaged afterwards; null: the ranks of this host
  bool post_local_gradient_allreduce = true;  ///< false: no gradients are averaged afterwards at all
};

/// Averages gradients over all ranks at first, then within a subgroup only, as the ranks of a host; a model averager
/// keeps the subgroups together (Lin, Stich, Patel and Jaggi, 2020, arXiv:1808.07217). On one host the default subgroup
/// is everybody, so that nothing changes after the first steps: there, name smaller ones, or average no gradients.
std::unique_ptr<CommunicationHook> post_local_sgd_hook(const PostLocalSGDOptions& options);

/// Averages parameters over the ranks in every `period`-th step.
class PeriodicModelAverager {
 public:
  /// @param warmup_steps  as many steps pass before the first average; that of step `warmup_steps` is one
  /// @param group         default: the group of init_process_group
  /// @throws Error  if `period` is below 1 or `warmup_steps` below 0
  explicit PeriodicModelAverager(std::int64_t period, std::int64_t warmup_steps = 0,
                                 std::shared_ptr<Communicator> group = nullptr);
  /// To be called after each step of the optimizer, by every rank.
  void average_parameters(const std::vector<at::Tensor>& parameters);
  std::int64_t step() const { return step_; }
  /// For Accelerator::register_for_checkpointing: the number of steps. @throws Error  if `text` is not that
  std::string state_dict() const { return std::to_string(step_); }
  void load_state_dict(const std::string& text);

 private:
  std::int64_t period_, warmup_steps_, step_ = 0;
  std::shared_ptr<Communicator> group_;
};

struct DiLoCoOptions {
  std::int64_t sync_every = 500;  ///< steps that a rank makes alone
  double outer_lr = 0.7;
  double outer_momentum = 0.9;  ///< Nesterov's
};

/// DiLoCo (Douillard et al., 2023, arXiv:2311.08105): each rank trains alone for `sync_every` steps by an optimizer of
/// its own; how far all have moved on average is then the gradient of an outer SGD with Nesterov momentum over the
/// weights where they last met. A message in `sync_every` steps in place of one in each.
///
/// Gradients are not averaged: give DistributedDataParallel `noop_hook()`, or use the plain model.
class DiLoCo {
 public:
  /// Collective. @param parameters  equal on all ranks, as after DistributedDataParallel's construction
  /// @throws Error  if an option makes no sense, or on every rank if the parameters are not equal
  DiLoCo(std::vector<at::Tensor> parameters, DiLoCoOptions options = {}, std::shared_ptr<Communicator> group = nullptr);
  /// To be called after each step of the inner optimizer, by every rank. @return  whether the ranks met
  bool step();
  /// For Accelerator::register_for_checkpointing: where the ranks last met, the outer momentum and the number of steps,
  /// as bytes; the same on every rank. @throws Error  if `bytes` are not that, of these parameters
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
