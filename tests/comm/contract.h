#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "tests/support/ranks.h"

namespace lockstep {

/// One way to run a group: what every engine must pass is run in all ways that it offers.
struct Placement {
  std::string engine;
  int world_size = 1;
  bool processes = false;  ///< else threads
  friend std::ostream& operator<<(std::ostream& out, const Placement& placement) {
    return out << placement.engine << "_" << placement.world_size << (placement.processes ? "_processes" : "_threads");
  }
};

/// All engines of the factory's list with these world sizes, as threads and as processes where they can.
std::vector<Placement> placements(const std::vector<int>& world_sizes);
/// For tests that wait for something to go wrong: fewer, since each takes a while.
std::vector<Placement> placements_for_failures();
std::string placement_name(const ::testing::TestParamInfo<Placement>& info);

class Contract : public ::testing::TestWithParam<Placement> {
 public:
  using Body = std::function<void(Communicator&)>;

 protected:
  /// Runs `body` on every rank. The test fails where one throws.
  void each_rank(const Body& body, const RanksOptions& options = {});
  /// The same, where ranks may throw: how they ended.
  std::vector<RankOutcome> ends_of(const Body& body, const RanksOptions& options = {});
};

const std::vector<at::ScalarType>& all_dtypes();
/// These, and those that no engine computes with: what only moves values takes them.
const std::vector<at::ScalarType>& moved_dtypes();
/// Reductions that `dtype` has: Avg is of floating point only.
std::vector<ReduceOp> reductions_of(at::ScalarType dtype);

/// What rank `rank` contributes: [count] of small whole numbers, so that every dtype's results are exact.
at::Tensor values_of(at::ScalarType dtype, ReduceOp op, int rank, std::int64_t count);
/// The values of all ranks, reduced in fp32 (fp64 for fp64) and rounded once to `dtype`.
at::Tensor reduced_values(at::ScalarType dtype, ReduceOp op, int world_size, std::int64_t count);

/// [count] of 1.
inline at::Tensor ones(std::int64_t count, at::ScalarType dtype = at::kFloat) { return at::ones({count}, dtype); }

/// Equal dtype, shape and bits; NaNs of equal bits are equal.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace lockstep
