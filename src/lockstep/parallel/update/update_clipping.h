#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/fused/gradient_selection.h"
#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// The two requests that clip_grad_norm_ makes of a fused update, the norm and the scaling, and what follows once the
/// ranks have agreed on one. Both concern some of the parameters.
class UpdateClipping {
 public:
  /// What is given must outlive this object.
  explicit UpdateClipping(UpdateContext& context) : context_(context), selection_(context.gradients.num_parameters()) {}

  UpdateRequest request_norm(const std::vector<at::Tensor>& parameters, const ClipOptions& options);
  UpdateRequest request_scaling(const std::vector<at::Tensor>& parameters, double factor);
  /// Which parameters it is, to ranks that have made no request. Collective. @param root  has made one
  void broadcast(int root) { selection_.broadcast(*context_.communicator, root); }

  /// The norm of the average of all ranks' gradients. Collective.
  double norm();
  /// Multiplies gradients, and sums of them. Not collective.
  void scale();

 private:
  void select(UpdateRequest& request, const std::vector<at::Tensor>& parameters);

  UpdateContext& context_;
  GradientSelection selection_;
  std::vector<std::size_t> in_order_;  // the same in the order of the call, on a rank that has made one
};

}  // namespace lockstep
