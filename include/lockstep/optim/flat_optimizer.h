#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/named_state.h"

namespace lockstep {

class UpdateRule;
struct FusedSegment;
struct FusedUpdate;

/// What a step does besides the update, in the same pass over memory.
struct StepOptions {
  double max_norm = 0;  ///< clip the 2-norm of all gradients together to this; 0: do not; infinity: measure it alone
  double gradient_factor = 1;  ///< gradients are multiplied by this first: 1 / loss scale
  bool zero_grad = false;      ///< leave zeros in the gradients
  bool check_finite = false;   ///< no update if a gradient holds an infinity or NaN
};

struct StepResult {
  double norm = 0;       ///< of the gradients, times gradient_factor, before clipping; 0 where max_norm is 0
  bool skipped = false;  ///< check_finite found something
};

/// Does the steps of an optimizer that is part of something larger.
class StepDelegate {
 public:
  virtual ~StepDelegate() = default;
  /// In place of FlatOptimizer::step_with.
  virtual StepResult step(const StepOptions& options) = 0;
  /// True if no gradient was written since they were left zero: `zero_grad` then has nothing to do.
  virtual bool gradients_are_zero() const = 0;
  /// `zero_grad` is about to write zeros: the gradients will be in no step.
  virtual void gradients_dropped() = 0;
  /// Whether the gradient of `parameter` is this delegate's business: `grad` is then not what a step updates by.
  virtual bool covers(const at::Tensor& parameter) const = 0;
  /// The norm of what a step would update by, of those of `parameters` that it covers.
  virtual double gradient_norm(const std::vector<at::Tensor>& parameters, double norm_type) = 0;
  /// Multiplies that by `factor`.
  virtual void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) = 0;
  /// The optimizer goes: it makes no more steps.
  virtual void optimizer_destroyed() noexcept = 0;
};

/// A torch::optim::Optimizer that walks memory instead of tensors: where weights and gradients lie one behind the
/// other, as in the buckets of DistributedDataParallel and after `flatten`, many parameters are one loop. Derived
/// classes have LibTorch's options, state and arithmetic: schedulers, `param_groups()`, `zero_grad()`,
/// `add_param_group` and serialization work as they do there, and so does the result, to the bit where LibTorch runs
/// with AVX2 or AVX-512.
///
/// Vectorised for dense fp32 and fp64 parameters on a CPU, with gradients of their own dtype or, for fp32, bf16 or
/// fp16. Others are updated by tensor operations, tensor by tensor, as LibTorch does. Sparse gradients are an Error.
///
/// Uses LibTorch's intra-op threads if more than one is set; the result does not depend on it. Not thread-safe.
class FlatOptimizer : public torch::optim::Optimizer {
 public:
  ~FlatOptimizer() override;
  /// One update of all parameters that have a gradient. @return  the loss, if a closure computed it
  /// @throws Error  if a gradient is sparse, or of another shape than its parameter
  at::Tensor step(LossClosure closure = nullptr) override;
  /// The same, with more done on the way.
  StepResult step_with(const StepOptions& options);
  /// As torch::optim::Optimizer::zero_grad, which it hides, but gradients may also be views.
  void zero_grad();
  /// As torch::optim::Optimizer::add_param_group, which it hides.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  /// In the format of LibTorch's own optimizer of this kind, so that either can load what the other saved.
  void save(torch::serialize::OutputArchive& archive) const final;
  void load(torch::serialize::InputArchive& archive) final;

  /// State by name: views, valid until the next step. Parameters that have no state yet, or no part here, are left out.
  /// @throws Error  if a parameter of this optimizer has no name in `names`
  NamedState named_state(const NamedParameters& names) const;
  /// Takes over the part that belongs here; parameters that `state` does not name start anew. Cut and order may differ
  /// from those that it was saved with. @throws Error  if shapes differ or a part that belongs here is missing
  void load_named_state(const NamedParameters& names, const NamedState& state);
  /// Options of each parameter group by name ("lr", "beta1", ...; switches are 0 or 1), and back.
  std::vector<std::map<std::string, double>> group_options() const;
  /// @throws Error  if the number of groups or the names differ
  void load_group_options(const std::vector<std::map<std::string, double>>& options);

  /// Leaves the update of the parameters in `segments` to `update_segment`, and keeps state for elements [begin, end)
  /// of each segment only; of state that is there already, that part. Parameters in no segment are left to
  /// `step_local`.
  /// @throws Error  if a segment makes no sense
  void shard(std::vector<FusedSegment> segments);
  bool is_sharded() const;
  /// Takes `shard` back. `whole` is the state of all parameters, as load_named_state takes it.
  void unshard(const NamedParameters& names, const NamedState& whole);
  /// PyTorch's names of what is kept for a parameter, those of all options.
  std::vector<std::string> state_names() const;
  /// Updates this rank's elements of segment `index`, in one pass over weights, state and all ranks' gradients.
  void update_segment(std::size_t index, const FusedUpdate& update);
  /// What `step_with` does without a delegate: updates the parameters that are in no segment, by their `grad`.
  StepResult step_local(const StepOptions& options);
  /// From now on steps are the delegate's, which must outlive this object or be taken back with null.
  void set_step_delegate(StepDelegate* delegate) { delegate_ = delegate; }
  bool has_step_delegate() const { return delegate_ != nullptr; }
  StepDelegate* step_delegate() const { return delegate_; }

 protected:
  FlatOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                std::unique_ptr<torch::optim::OptimizerOptions> defaults, std::unique_ptr<const UpdateRule> rule);

 private:
  struct Parts;

  /// @throws Error  if this rank holds a part of the state only
  void throw_if_sharded(const std::string& operation) const;

  std::unique_ptr<Parts> parts_;
  StepDelegate* delegate_ = nullptr;
};

}  // namespace lockstep
