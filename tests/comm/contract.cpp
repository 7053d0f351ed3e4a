#include "tests/comm/contract.h"

#include <algorithm>
#include <cstring>

#include "lockstep/comm/factory.h"

namespace lockstep {

std::vector<Placement> placements(const std::vector<int>& world_sizes) {
  std::vector<Placement> all;
  for (const Engine& engine : available_engines()) {
    for (const int world_size : world_sizes) {
      if (engine.threads) all.push_back({engine.name, world_size, false});
      if (engine.across_processes) all.push_back({engine.name, world_size, true});
    }
  }
  return all;
}

std::string placement_name(const ::testing::TestParamInfo<Placement>& info) {
  std::ostringstream name;
  name << info.param;
  return name.str();
}

std::vector<RankEnd> Contract::ends_of(const Body& body, const RanksOptions& options) {
  const Placement placement = GetParam();
  const RankBody with_group = [&](const Membership& membership) {
    const auto group = make_communicator(placement.engine, membership);
    body(*group);
  };
  return placement.processes ? ranks_as_processes(placement.world_size, with_group, options)
                             : ranks_as_threads(placement.world_size, with_group, options);
}

void Contract::each_rank(const Body& body, const RanksOptions& options) {
  const std::vector<RankEnd> ends = ends_of(body, options);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_FALSE(ends[rank].failed) << "rank " << rank << ": " << ends[rank].text << " signal " << ends[rank].signal;
  }
}

const std::vector<at::ScalarType>& all_dtypes() {
  static const std::vector<at::ScalarType> dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                                     at::kInt,   at::kLong,   at::kByte};
  return dtypes;
}

std::vector<ReduceOp> reductions_of(at::ScalarType dtype) {
  std::vector<ReduceOp> reductions = {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product};
  if (at::isFloatingType(dtype)) reductions.push_back(ReduceOp::Avg);
  return reductions;
}

double value_at(ReduceOp op, int rank, std::int64_t i) {
  if (op == ReduceOp::Product) return static_cast<double>(1 + (i + rank) % 2);
  return static_cast<double>(1 + (3 * i + 5 * rank) % 11);
}

double reduced_at(ReduceOp op, int world_size, std::int64_t i) {
  double result = value_at(op, 0, i);
  for (int rank = 1; rank < world_size; ++rank) {
    const double next = value_at(op, rank, i);
    switch (op) {
      case ReduceOp::Sum:
      case ReduceOp::Avg:
        result += next;
        break;
      case ReduceOp::Min:
        result = std::min(result, next);
        break;
      case ReduceOp::Max:
        result = std::max(result, next);
        break;
      case ReduceOp::Product:
        result *= next;
        break;
    }
  }
  return op == ReduceOp::Avg ? result / world_size : result;
}

at::Tensor tensor_of(at::ScalarType dtype, std::int64_t count, const std::function<double(std::int64_t)>& f) {
  at::Tensor values = at::empty({count}, at::kDouble);
  double* const to = values.data_ptr<double>();
  for (std::int64_t i = 0; i < count; ++i) to[i] = f(i);
  if (dtype == at::kHalf || dtype == at::kBFloat16) values = values.to(at::kFloat);
  return values.to(dtype);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

}  // namespace lockstep
