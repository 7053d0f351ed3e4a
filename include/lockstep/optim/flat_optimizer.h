#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/detail/optim/named_state.h"

namespace lockstep {

class UpdateRule;
struct FusedSegment;
struct SegmentUpdate;

/// What a step does in addition to the update, in the same pass over memory.
struct StepOptions {
  double max_norm = 0;         ///< clip the 2-norm of all gradients together to this; 0: no; infinity: only measure it
  double gradient_factor = 1;  ///< gradients are multiplied by this first: 1 / loss scale
  bool zero_grad = false;      ///< leave zeros in the gradients, as FlatOptimizer::zero_grad does
  bool check_finite = false;   ///< no update if a gradient holds an infinity or NaN
};

struct StepResult {
  double norm = 0;       ///< norm of the gradients, times gradient_factor, before clipping; 0 if max_norm is 0
  bool skipped = false;  ///< check_finite found an infinity or NaN
};

/// The arguments of clip_grad_norm_, beside its parameters.
struct ClipOptions {
  double max_norm = 0;
  double norm_type = 2;
  bool error_if_nonfinite = false;
};

/// Takes over the steps of an optimizer that is part of something larger.
class StepDelegate {
 public:
  virtual ~StepDelegate() = default;
  /// Called in place of FlatOptimizer::step_with.
  virtual StepResult step(const StepOptions& options) = 0;
  /// True if no gradient was written since the gradients were zeroed: `zero_grad` then has nothing to do.
  virtual bool gradients_are_zero() const = 0;
  /// Called when `zero_grad` is about to write zeros: the gradients will not be part of a step.
  virtual void gradients_dropped() = 0;
  /// Whether this delegate manages the gradient of `parameter`. A step then does not update by `grad` itself.
  virtual bool covers(const at::Tensor& parameter) const = 0;
  /// The norm of the gradients that a step would apply to the covered ones of `parameters`, of which each counts as
  /// often as it is listed. @param options  of the call that needs it
  /// @return  below 0 if options.norm_type is negative and none of them has a gradient
  virtual double gradient_norm(const std::vector<at::Tensor>& parameters, const ClipOptions& options) = 0;
  /// Multiplies the gradients that a step would apply to the covered ones of `parameters` by `factor`, each as often as
  /// it is listed.
  virtual void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) = 0;
  /// Called when the optimizer is destroyed: it makes no more steps.
  virtual void optimizer_destroyed() noexcept = 0;
};

/// A torch::optim::Optimizer that walks memory instead of tensors. If weights and gradients lie one behind the other,
/// as in the buckets of DistributedDataParallel and after `flatten`, one loop updates many parameters. Derived classes
/// have LibTorch's options, state and arithmetic: schedulers, `param_groups()`, `zero_grad()`, `add_param_group` and
/// serialization work as in LibTorch. The results are equal too, to the bit if LibTorch runs with AVX2 or AVX-512.
///
/// The update is vectorised for dense fp32 and fp64 parameters on a CPU, with gradients in the parameter's dtype or,
/// for fp32 parameters, in bf16 or fp16. Other parameters are updated by tensor operations, tensor by tensor, as in
/// LibTorch. Sparse gradients are an Error.
///
/// Uses LibTorch's intra-op threads if more than one is set; the result does not depend on their number. Not
/// thread-safe.
class FlatOptimizer : public torch::optim::Optimizer {
 public:
  ~FlatOptimizer() override;
  /// One update of all parameters that have a gradient. @return  the loss, if a closure computed it
  /// @throws Error  if a gradient is sparse, or of another shape than its parameter
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Does one update, with the additions that `options` ask for.
  StepResult step_with(const StepOptions& options);
  /// As torch::optim::Optimizer::zero_grad(false), which it hides, but gradients may also be views. Gradients on
  /// devices are dropped, which saves a backward one kernel for each: the next step takes them for zeros if none have
  /// arrived.
  void zero_grad();
  /// How often `zero_grad` was called: ranks compare it.
  std::uint64_t zero_grads() const { return zero_grads_; }
  /// As torch::optim::Optimizer::add_param_group, which it hides.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  /// Written in the format of LibTorch's own optimizer of this kind, so that either can load what the other saved.
  void save(torch::serialize::OutputArchive& archive) const final;
  void load(torch::serialize::InputArchive& archive) final;

  /// The state by parameter name. The tensors are views, valid until the next step. Parameters without state, or
  /// without a part on this rank, are left out.
  /// @throws Error  if a parameter of this optimizer has no name in `names`
  NamedState named_state(const NamedParameters& names) const;
  /// Takes over the part of `state` that belongs to this rank. Parameters that `state` does not name start without
  /// state. Partition and order may differ from those at the time of saving.
  /// @throws Error  if shapes differ or a part that belongs to this rank is missing
  void load_named_state(const NamedParameters& names, const NamedState& state);
  /// The same from the parts that several ranks saved: of each part only the elements that belong to this rank are
  /// read, so the whole state is never in memory. @throws Error  also if parts leave a gap, overlap or do not fit
  void load_named_state(const NamedParameters& names, const std::vector<NamedState>& parts);
  /// The options of each parameter group by name ("lr", "beta1", ...); switches are 0 or 1.
  std::vector<std::map<std::string, double>> group_options() const;
  /// Sets the options that `group_options` returned. @throws Error  if the number of groups or the names differ
  void load_group_options(const std::vector<std::map<std::string, double>>& options);

  /// Leaves the update of the parameters in `segments` to `update_segment`, and keeps state only for elements [begin,
  /// end) of each segment. Existing state is cut to that part. `step_local` updates the parameters that are in no
  /// segment.
  /// @throws Error  if a segment is invalid
  void shard(std::vector<FusedSegment> segments);
  bool is_sharded() const;
  /// Undoes `shard`. `whole` is the state of all parameters, as load_named_state takes it.
  void unshard(const NamedParameters& names, const NamedState& whole);
  /// PyTorch's names of the state tensors of a parameter, for all options together.
  std::vector<std::string> state_names() const;
  /// Updates this rank's elements of segment `index`, in one pass over weights, state and the gradients of all ranks.
  void update_segment(std::size_t index, const SegmentUpdate& update);
  /// What `step_with` does without a delegate: updates the parameters that are in no segment, using their `grad`.
  StepResult step_local(const StepOptions& options);
  /// From now on `delegate` makes the steps. It must outlive this object, or be removed by setting null.
  void set_step_delegate(StepDelegate* delegate) { delegate_ = delegate; }
  bool has_step_delegate() const { return delegate_ != nullptr; }
  StepDelegate* step_delegate() const { return delegate_; }

 protected:
  FlatOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                std::unique_ptr<torch::optim::OptimizerOptions> defaults, std::unique_ptr<const UpdateRule> rule);

 private:
  struct Parts;

  /// @throws Error  if this rank holds only a part of the state
  void throw_if_sharded(const std::string& operation) const;

  std::unique_ptr<Parts> parts_;
  StepDelegate* delegate_ = nullptr;
  std::uint64_t zero_grads_ = 0;
};

}  // namespace lockstep
