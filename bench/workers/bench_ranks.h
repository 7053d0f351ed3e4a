// What every rank of a benchmark does: starts, and combines the figures of all ranks.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "lockstep/base/environment.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

/// Sets the threads to OMP_NUM_THREADS and equal random seeds on every rank, and joins the process group.
/// @param engine  empty: the fastest available
inline void init_bench_rank(const std::string& engine = "") {
  if (const auto threads = env_int("OMP_NUM_THREADS")) torch::set_num_threads(static_cast<int>(*threads));
  torch::manual_seed(0);
  ProcessGroupOptions group;
  group.backend = engine;
  init_process_group(group);
}

/// The largest of all ranks' `value`: a step is as slow as its slowest rank. Collective.
inline double largest_of_ranks(double value) {
  torch::Tensor all = torch::full({1}, value, torch::kDouble);
  default_group()->all_reduce(all, ReduceOp::Max);
  return all.item<double>();
}

/// The sum of all ranks' `value`. Collective.
inline double sum_of_ranks(double value) {
  torch::Tensor all = torch::full({1}, value, torch::kDouble);
  default_group()->all_reduce(all, ReduceOp::Sum);
  return all.item<double>();
}

/// The largest of all ranks' medians. Collective.
inline double median_of_ranks(const std::vector<double>& values) { return largest_of_ranks(median(values)); }

}  // namespace lockstep
