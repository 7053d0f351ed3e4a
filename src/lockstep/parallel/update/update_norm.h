#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/parallel/fused/gradient_selection.h"

namespace lockstep {

/// The norm of the average of all ranks' gradients. Collective, on all ranks with the same arguments.
class UpdateNorm {
 public:
  virtual ~UpdateNorm() = default;
  /// The norm of order 2 of all gradients that the optimizer has.
  virtual double of_all() = 0;
  /// The norm of order p of these parameters' gradients.
  /// @param in_order  the same parameters as a list, on a rank that has asked for the norm
  /// @throws AgreedError  if there is no such norm here
  virtual double of(const GradientSelection& selection, const std::vector<std::size_t>& in_order, double p) = 0;
  /// Whether bits depend on the order of the parameters, in which ranks then must not differ.
  virtual bool depends_on_order() const { return false; }
};

}  // namespace lockstep
