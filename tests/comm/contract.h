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

/// One way to run a group: the tests that every engine must pass run in all ways that it offers.
struct Placement {
  std::string engine;
  int world_size = 1;
  bool processes = false;  ///< false: threads
  friend std::ostream& operator<<(std::ostream& out, const Placement& placement) {
    return out << placement.engine << "_" << placement.world_size << (placement.processes ? "_processes" : "_threads");
  }
};

/// All engines of the factory's list with these world sizes, as threads and as processes if they support it.
std::vector<Placement> placements(const std::vector<int>& world_sizes);
/// For tests that wait for a failure: fewer placements, because each takes a while.
std::vector<Placement> placements_for_failures();
std::string placement_name(const ::testing::TestParamInfo<Placement>& info);

class Contract : public ::testing::TestWithParam<Placement> {
 public:
  using Body = std::function<void(Communicator&)>;
  using StandingBody = void (*)(Communicator&);

 protected:
  /// Runs `body`, which has no captures, on every rank, in a new group of standing ranks if they are processes. The
  /// test fails if one throws.
  void each_rank(StandingBody body);
  /// The same for a body that ends its group by a failure. MPI cannot be used in a process in which a group over it
  /// has failed, so those ranks are new ones.
  void each_rank_fails(StandingBody body);
  /// The same on ranks of its own, for bodies that need options.
  void each_rank(const Body& body, const RanksOptions& options);
  /// Runs `body` on ranks of its own, which may throw and end: how they did.
  std::vector<RankOutcome> ends_of(const Body& body, const RanksOptions& options = {});
};

const std::vector<at::ScalarType>& all_dtypes();
/// All dtypes that can be moved, including those with which no engine computes.
const std::vector<at::ScalarType>& moved_dtypes();
/// Reductions that `dtype` supports: Avg is for floating point only.
std::vector<ReduceOp> reductions_of(at::ScalarType dtype);

/// The contribution of rank `rank`: [count] of small whole numbers, so that every dtype's results are exact.
at::Tensor values_of(at::ScalarType dtype, ReduceOp op, int rank, std::int64_t count);
/// The values of all ranks, reduced in fp32 (fp64 for fp64) and rounded once to `dtype`.
at::Tensor reduced_values(at::ScalarType dtype, ReduceOp op, int world_size, std::int64_t count);

/// [count] ones.
inline at::Tensor ones(std::int64_t count, at::ScalarType dtype = at::kFloat) { return at::ones({count}, dtype); }

/// Equal dtype, shape and bits; NaNs of equal bits are equal.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace lockstep
