#include "tests/comm/contract.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "lockstep/comm/factory.h"
#include "tests/support/mpi_places.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks/standing_ranks.h"

namespace lockstep {

std::vector<Placement> placements(const std::vector<int>& world_sizes) {
  std::vector<Placement> all;
  for (const Engine& engine : available_engines()) {
    if (engine.device != c10::DeviceType::CPU) continue;  // tested in tests/comm/cuda_test.cpp
    if (engine.name == std::string("mpi") && MpiPlaces::why_not()) {
      std::cout << *MpiPlaces::why_not() << std::endl;
      continue;
    }
    for (const int world_size : world_sizes) {
      // One rank needs no engine, so one engine's name is enough.
      if (engine.name == std::string("hierarchical") && world_size < 3) continue;  // needs a host with several ranks
      if (world_size == 1 && &engine != &available_engines().front()) continue;
      if (engine.threads) all.push_back({engine.name, world_size, false});
      if (engine.across_processes) all.push_back({engine.name, world_size, true});
    }
  }
  return all;
}

std::vector<Placement> placements_for_failures() {
  std::vector<Placement> chosen;
  for (const Placement& placement : placements({2, 3})) {
    if (!placement.processes || placement.world_size == 3) chosen.push_back(placement);
  }
  return chosen;
}

std::string placement_name(const ::testing::TestParamInfo<Placement>& info) {
  std::ostringstream name;
  name << info.param;
  return name.str();
}

namespace {

const char* const kMpi = "mpi";
const char* const kHierarchical = "hierarchical";

// Standing ranks know the factory's list, but not the strings of this test.
const char* listed_name(const std::string& engine) {
  for (const Engine& listed : available_engines()) {
    if (listed.name == engine) return listed.name;
  }
  throw std::logic_error("there is no engine " + engine);
}

std::unique_ptr<Communicator> group_of(const std::string& engine, const Membership& membership) {
  return make_communicator(engine, engine == kHierarchical ? on_two_hosts(membership) : membership);
}

void expect_success(const std::vector<RankOutcome>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_FALSE(ends[rank].failed) << "rank " << rank << ": " << ends[rank].text << " signal " << ends[rank].signal;
  }
}

}  // namespace

std::vector<RankOutcome> Contract::ends_of(const Body& body, const RanksOptions& options) {
  const Placement& placement = GetParam();
  const RankBody with_group = [&](const Membership& membership) { body(*group_of(placement.engine, membership)); };
  RanksOptions all = options;
  all.mpi = placement.engine == kMpi;
  return placement.processes ? ranks_as_processes(placement.world_size, with_group, all)
                             : ranks_as_threads(placement.world_size, with_group, options);
}

void Contract::each_rank(const Body& body, const RanksOptions& options) { expect_success(ends_of(body, options)); }

void Contract::each_rank_fails(StandingBody body) {
  if (GetParam().engine == kMpi) return each_rank(body, RanksOptions());
  each_rank(body);
}

void Contract::each_rank(StandingBody body) {
  const Placement& placement = GetParam();
  if (!placement.processes) return each_rank(body, RanksOptions());
  RanksOptions options;
  options.mpi = placement.engine == kMpi;
  const auto with_group = [engine = listed_name(placement.engine), body](const Membership& membership) {
    body(*group_of(engine, membership));
  };
  expect_success(standing_ranks(placement.world_size, with_group, options));
}

const std::vector<at::ScalarType>& all_dtypes() {
  static const std::vector<at::ScalarType> dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                                     at::kInt,   at::kLong,   at::kByte};
  return dtypes;
}

const std::vector<at::ScalarType>& moved_dtypes() {
  static const std::vector<at::ScalarType> dtypes = [] {
    std::vector<at::ScalarType> all = all_dtypes();
    all.insert(all.end(), {at::kBool, at::kChar, at::kShort, at::kComplexHalf, at::kComplexFloat, at::kComplexDouble});
    return all;
  }();
  return dtypes;
}

std::vector<ReduceOp> reductions_of(at::ScalarType dtype) {
  std::vector<ReduceOp> reductions = {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product};
  if (at::isFloatingType(dtype)) reductions.push_back(ReduceOp::Avg);
  return reductions;
}

at::Tensor values_of(at::ScalarType dtype, ReduceOp op, int rank, std::int64_t count) {
  const at::Tensor index = at::arange(count, at::kLong);
  if (dtype == at::kBool) return index.mul(3).add(5 * rank).remainder(11).gt(4);
  if (op == ReduceOp::Product) return index.add(rank).remainder(2).add(1).to(dtype);
  return index.mul(3).add(5 * rank).remainder(11).add(1).to(dtype);
}

at::Tensor reduced_values(at::ScalarType dtype, ReduceOp op, int world_size, std::int64_t count) {
  const at::ScalarType precision =
      dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat ? at::kFloat : at::kDouble;
  at::Tensor result = values_of(precision, op, 0, count);
  for (int rank = 1; rank < world_size; ++rank) {
    const at::Tensor next = values_of(precision, op, rank, count);
    if (op == ReduceOp::Min) {
      result = at::minimum(result, next);
    } else if (op == ReduceOp::Max) {
      result = at::maximum(result, next);
    } else if (op == ReduceOp::Product) {
      result.mul_(next);
    } else {
      result.add_(next);
    }
  }
  if (op == ReduceOp::Avg) result.div_(world_size);
  return result.to(dtype);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

}  // namespace lockstep
