#include "lockstep/parallel/agreement/optimizer_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// The ranks' common knowledge of all parameters' state. Several ranks may hold parts of it, or all may hold the whole.
struct Inventory {
  std::vector<std::string> kinds;
  at::Tensor largest;  // [parameters][step, and for each kind 1 if some rank has it]
  at::Tensor holders;  // [parameters]: ranks that hold any of it
  at::Tensor parts;    // [parameters]: ranks among them that hold only a part
};

Inventory take_inventory(Communicator& communicator, const FlatOptimizer& optimizer, const NamedParameters& names,
                         const NamedState& local) {
  Inventory all;
  all.kinds = optimizer.state_names();
  const auto rows = static_cast<std::int64_t>(names.size());
  const auto columns = static_cast<std::int64_t>(1 + all.kinds.size());
  const auto longs = at::TensorOptions().dtype(at::kLong);
  all.largest = at::zeros({rows * columns}, longs);
  all.holders = at::zeros({rows}, longs);
  all.parts = at::zeros({rows}, longs);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto found = local.find(names[static_cast<std::size_t>(row)].first);
    if (found == local.end()) continue;
    std::int64_t* entry = all.largest.data_ptr<std::int64_t>() + row * columns;
    entry[0] = found->second.step;
    for (std::size_t k = 0; k < all.kinds.size(); ++k) entry[1 + k] = found->second.tensors.count(all.kinds[k]) != 0;
    all.holders.data_ptr<std::int64_t>()[row] = 1;
    all.parts.data_ptr<std::int64_t>()[row] = found->second.is_whole() ? 0 : 1;
  }
  communicator.all_reduce(all.largest, ReduceOp::Max);
  communicator.all_reduce(all.holders);
  communicator.all_reduce(all.parts);
  return all;
}

// Each element is held by one rank and zero on the others. Integer addition keeps every bit.
at::Tensor gather_elements(Communicator& communicator, const at::Tensor& parameter, const ParameterState* mine,
                           const std::string& kind) {
  at::Tensor whole = at::zeros({parameter.numel()}, parameter.options().requires_grad(false));
  if (mine != nullptr) {
    whole.narrow(0, mine->begin, mine->end - mine->begin).copy_(mine->tensors.at(kind).reshape({-1}));
  }
  at::Tensor bits = whole.view(whole.element_size() == 8 ? at::kLong : at::kInt);
  communicator.all_reduce(bits);
  return whole.view(parameter.sizes());
}

}  // namespace

NamedParameters numbered_parameters(const FlatOptimizer& optimizer) {
  NamedParameters result;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      result.emplace_back(fmt::format("{:06}", result.size()), parameter);
    }
  }
  return result;
}

NamedState gather_optimizer_state(Communicator& communicator, const FlatOptimizer& optimizer,
                                  const NamedParameters& names) {
  const at::NoGradGuard no_grad;
  NamedState local = optimizer.named_state(names);
  if (communicator.world_size() == 1) return local;
  const Inventory all = take_inventory(communicator, optimizer, names, local);
  NamedState result;
  for (std::size_t row = 0; row < names.size(); ++row) {
    const auto& [name, parameter] = names[row];
    const std::int64_t* entry = all.largest.data_ptr<std::int64_t>() + row * (1 + all.kinds.size());
    const std::int64_t holders = all.holders.data_ptr<std::int64_t>()[row];
    const auto found = local.find(name);
    if (holders == 0) continue;
    if (holders == communicator.world_size() && all.parts.data_ptr<std::int64_t>()[row] == 0) {
      result.emplace(name, std::move(found->second));
      continue;
    }
    ParameterState state;
    state.sizes = parameter.sizes().vec();
    state.end = parameter.numel();
    state.step = entry[0];
    for (std::size_t k = 0; k < all.kinds.size(); ++k) {
      if (entry[1 + k] == 0) continue;
      state.tensors[all.kinds[k]] =
          gather_elements(communicator, parameter, found == local.end() ? nullptr : &found->second, all.kinds[k]);
    }
    result.emplace(name, std::move(state));
  }
  return result;
}

}  // namespace lockstep
