#include "lockstep/parallel/fused/norm_over_ranks.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

double reduce_number(Communicator& communicator, double value, ReduceOp op) {
  if (communicator.world_size() == 1) return value;
  at::Tensor number = at::empty({1}, at::TensorOptions().dtype(at::kDouble));
  double* content = number.data_ptr<double>();
  *content = value;
  communicator.all_reduce(number, op);
  return *content;
}

}  // namespace

double norm_over_ranks(Communicator& communicator, FusedMemory& memory, const std::vector<OwnedGradients>& parts,
                       double added, double p) {
  double value = 0;
  if (p == std::numeric_limits<double>::infinity()) {
    memory.access([&] { value = max_abs(parts); });
    return reduce_number(communicator, std::isnan(added) || added > value ? added : value, ReduceOp::Max);
  }
  if (p == -std::numeric_limits<double>::infinity()) {
    memory.access([&] { value = min_abs(parts); });
    return reduce_number(communicator, added != 0 && added < value ? added : value, ReduceOp::Min);
  }
  memory.access([&] { value = p == 2 ? sum_of_squares(parts) : sum_of_powers(parts, p); });
  const double sum = reduce_number(communicator, value + (added == 0 ? 0 : std::pow(added, p)), ReduceOp::Sum);
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

bool all_finite_over_ranks(Communicator& communicator, FusedMemory& memory, const std::vector<OwnedGradients>& parts,
                           bool others) {
  bool finite = others;
  memory.access([&] { finite = all_finite(parts) && finite; });
  return reduce_number(communicator, finite ? 0 : 1, ReduceOp::Max) == 0;
}

}  // namespace lockstep
