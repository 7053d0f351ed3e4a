// The results of every collective, for every engine, dtype, reduction and size.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/comm/contract.h"

namespace lockstep {
namespace {

class Collectives : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, Collectives, ::testing::ValuesIn(placements({1, 2, 3, 4})), placement_name);

const std::vector<std::int64_t> kCounts = {0, 1, 3, 4, 100, 1000, 10007};

struct CollectiveCase {
  at::ScalarType dtype;
  ReduceOp op;
  std::int64_t count;
};

// Every dtype with every reduction; many sizes, some of which are sent in several pieces.
std::vector<CollectiveCase> reduction_cases() {
  std::vector<CollectiveCase> cases;
  for (const at::ScalarType dtype : all_dtypes()) {
    for (const ReduceOp op : reductions_of(dtype)) cases.push_back({dtype, op, 1009});
  }
  for (const std::int64_t count : kCounts) cases.push_back({at::kFloat, ReduceOp::Sum, count});
  for (const std::int64_t count : kCounts) cases.push_back({at::kBFloat16, ReduceOp::Avg, count});
  cases.push_back({at::kFloat, ReduceOp::Avg, 150001});
  cases.push_back({at::kHalf, ReduceOp::Sum, 200001});
  return cases;
}

at::Tensor mine(const CollectiveCase& c, int rank, std::int64_t count) { return values_of(c.dtype, c.op, rank, count); }

at::Tensor reduced(const CollectiveCase& c, int world_size, std::int64_t count) {
  return reduced_values(c.dtype, c.op, world_size, count);
}

#define EXPECT_BITS(got, want, c) \
  EXPECT_TRUE(same_bits(got, want)) << to_string((c).op) << " of " << (c).count << " " << at::toString((c).dtype)

TEST_P(Collectives, AllReduce) {
  each_rank([](Communicator& group) {
    for (const CollectiveCase& c : reduction_cases()) {
      at::Tensor tensor = mine(c, group.rank(), c.count);
      group.all_reduce(tensor, c.op);
      EXPECT_BITS(tensor, reduced(c, group.world_size(), c.count), c);
    }
  });
}

TEST_P(Collectives, AllReduceOfManyMegabytes) {
  each_rank([](Communicator& group) {
    const std::int64_t count = 3000017;
    const int size = group.world_size();
    at::Tensor tensor = at::full({count}, group.rank() + 1, at::kFloat);
    tensor.slice(0, 0, count, 1013).fill_(-group.rank());
    group.all_reduce(tensor);
    at::Tensor want = at::full({count}, size * (size + 1) / 2, at::kFloat);
    want.slice(0, 0, count, 1013).fill_(-size * (size - 1) / 2);
    EXPECT_TRUE(tensor.equal(want));
  });
}

TEST_P(Collectives, AllReduceOfAllocatedMemory) {
  each_rank([](Communicator& group) {
    for (const CollectiveCase& c : reduction_cases()) {
      at::Tensor tensor = group.allocate({c.count}, c.dtype);
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef({c.count}));
      EXPECT_TRUE(tensor.is_contiguous());
      tensor.copy_(mine(c, group.rank(), c.count));
      group.all_reduce(tensor, c.op);
      EXPECT_BITS(tensor, reduced(c, group.world_size(), c.count), c);
      tensor.copy_(mine(c, group.rank(), c.count));  // reuses the memory
      group.all_reduce_async(tensor, c.op)->wait();
      EXPECT_BITS(tensor, reduced(c, group.world_size(), c.count), c);
    }
  });
}

TEST_P(Collectives, ReduceToEachRoot) {
  each_rank([](Communicator& group) {
    int root = 0;
    for (const CollectiveCase& c : reduction_cases()) {
      root = (root + 1) % group.world_size();
      at::Tensor tensor = mine(c, group.rank(), c.count);
      group.reduce(tensor, root, c.op);
      if (group.rank() == root) {
        EXPECT_BITS(tensor, reduced(c, group.world_size(), c.count), c);
      }
    }
  });
}

TEST_P(Collectives, ReduceScatter) {
  each_rank([](Communicator& group) {
    for (const CollectiveCase& c : reduction_cases()) {
      const at::Tensor in = mine(c, group.rank(), c.count * group.world_size());
      const at::Tensor before = in.clone();
      at::Tensor out = at::empty({c.count}, c.dtype);
      group.reduce_scatter(out, in, c.op);
      const at::Tensor whole = reduced(c, group.world_size(), c.count * group.world_size());
      EXPECT_BITS(out, whole.slice(0, group.rank() * c.count, (group.rank() + 1) * c.count), c);
      EXPECT_BITS(in, before, c);
    }
  });
}

// Operations that only move data: every dtype, every size, every root in turn.
std::vector<CollectiveCase> movement_cases() {
  std::vector<CollectiveCase> cases;
  for (const at::ScalarType dtype : moved_dtypes()) cases.push_back({dtype, ReduceOp::Sum, 1009});
  for (const std::int64_t count : kCounts) cases.push_back({at::kFloat, ReduceOp::Sum, count});
  cases.push_back({at::kDouble, ReduceOp::Sum, 300001});
  return cases;
}

// All ranks' values, concatenated.
at::Tensor gathered(const CollectiveCase& c, int world_size) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < world_size; ++rank) parts.push_back(mine(c, rank, c.count));
  return at::cat(parts);
}

TEST_P(Collectives, BroadcastFromEachRoot) {
  each_rank([](Communicator& group) {
    for (const CollectiveCase& c : movement_cases()) {
      for (int root = 0; root < group.world_size(); ++root) {
        at::Tensor tensor = mine(c, group.rank(), c.count);
        group.broadcast(tensor, root);
        EXPECT_BITS(tensor, mine(c, root, c.count), c);
      }
    }
  });
}

TEST_P(Collectives, AllGather) {
  each_rank([](Communicator& group) {
    for (const CollectiveCase& c : movement_cases()) {
      at::Tensor out = at::empty({c.count * group.world_size()}, c.dtype);
      group.all_gather(out, mine(c, group.rank(), c.count));
      EXPECT_BITS(out, gathered(c, group.world_size()), c);
    }
  });
}

TEST_P(Collectives, GatherToEachRoot) {
  each_rank([](Communicator& group) {
    for (const CollectiveCase& c : movement_cases()) {
      for (int root = 0; root < group.world_size(); ++root) {
        at::Tensor out;  // undefined on ranks that ignore it
        if (group.rank() == root) out = at::empty({c.count * group.world_size()}, c.dtype);
        group.gather(out, mine(c, group.rank(), c.count), root);
        if (group.rank() == root) {
          EXPECT_BITS(out, gathered(c, group.world_size()), c);
        }
      }
    }
  });
}

TEST_P(Collectives, ScatterFromEachRoot) {
  each_rank([](Communicator& group) {
    for (const CollectiveCase& c : movement_cases()) {
      for (int root = 0; root < group.world_size(); ++root) {
        at::Tensor in;
        if (group.rank() == root) in = gathered(c, group.world_size());
        at::Tensor out = at::empty({c.count}, c.dtype);
        group.scatter(out, in, root);
        EXPECT_BITS(out, mine(c, group.rank(), c.count), c);
      }
    }
  });
}

TEST_P(Collectives, AllToAll) {
  each_rank([](Communicator& group) {
    const int size = group.world_size();
    for (const CollectiveCase& c : movement_cases()) {
      // Part `to` of rank `from` contains the values of an imagined rank 10 * from + to.
      const auto part = [&](int from, int to) { return mine(c, 10 * from + to, c.count); };
      std::vector<at::Tensor> sent;
      std::vector<at::Tensor> wanted;
      for (int other = 0; other < size; ++other) {
        sent.push_back(part(group.rank(), other));
        wanted.push_back(part(other, group.rank()));
      }
      at::Tensor out = at::empty({c.count * size}, c.dtype);
      group.all_to_all(out, at::cat(sent));
      EXPECT_BITS(out, at::cat(wanted), c);
    }
  });
}

TEST_P(Collectives, SendsAndScattersPartsOfEveryDtype) {
  each_rank([](Communicator& group) {
    if (group.world_size() == 1) return;
    for (const at::ScalarType dtype : moved_dtypes()) {
      const CollectiveCase c{dtype, ReduceOp::Sum, 101};
      if (group.rank() == 0) group.send(mine(c, 0, c.count), 1);
      if (group.rank() != 1) continue;
      at::Tensor wide = at::zeros({c.count, 2}, at::TensorOptions(dtype));
      at::Tensor column = wide.select(1, 1);  // not contiguous
      group.recv(column, 0);
      EXPECT_BITS(wide.select(1, 1), mine(c, 0, c.count), c);
      EXPECT_BITS(wide.select(1, 0), at::zeros({c.count}, at::TensorOptions(dtype)), c);
    }
  });
}

// The memory of a conjugate view contains the values before conjugation.
TEST_P(Collectives, BroadcastTheValuesOfConjugateViews) {
  each_rank([](Communicator& group) {
    const at::Tensor root_value = at::complex(at::ones({3}), at::full({3}, 2.0));
    at::Tensor memory = group.rank() == 0 ? root_value.clone() : at::zeros({3}, root_value.options());
    at::Tensor view = memory.conj();
    group.broadcast(view, 0);
    EXPECT_TRUE(at::equal(at::view_as_real(view.resolve_conj()), at::view_as_real(root_value.conj().resolve_conj())));
  });
}

TEST_P(Collectives, HalfPrecisionIsSummedInSinglePrecision) {
  each_rank([](Communicator& group) {
    // In fp16 2048 + 1 is 2048, in bf16 256 + 1 is 256: adding one by one in that precision would lose every 1.
    const std::vector<std::pair<at::ScalarType, double>> cases = {{at::kHalf, 2048}, {at::kBFloat16, 256}};
    for (const auto& [dtype, large] : cases) {
      for (const std::int64_t count : {5, 300001}) {
        at::Tensor tensor = at::full({count}, group.rank() == 0 ? large : 1.0, dtype);
        group.all_reduce(tensor);
        double sum = large + group.world_size() - 1;
        // The engine rounds once on each of the two hosts, and once between them, whatever the size.
        if (group.engine() == std::string("hierarchical")) {
          const int odd = group.world_size() / 2;
          sum = at::scalar_tensor(large + group.world_size() - odd - 1).to(dtype).item<double>() + odd;
        }
        const at::Tensor want = at::full({count}, sum, at::kFloat).to(dtype);
        EXPECT_TRUE(same_bits(tensor, want)) << at::toString(dtype) << " " << count;
      }
    }
  });
}

TEST_P(Collectives, EveryRankHasTheSameBits) {
  each_rank([](Communicator& group) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Product}) {
        for (const std::int64_t count : {257, 200003}) {
          // Values whose sum depends on the order of additions, and special values.
          const at::Tensor index = at::arange(count, at::kFloat);
          at::Tensor values = index.mul(7).add(group.rank() * 1013).sin().mul(index.remainder(8).mul(2.3).exp());
          values.slice(0, 5, count, 97).fill_(group.rank() == 0 ? 0.0 : -0.0);
          values.slice(0, 6, count, 97)
              .fill_(std::numeric_limits<double>::infinity() * (group.rank() % 2 == 0 ? 1 : -1));
          if (group.rank() > 0) values.slice(0, 7, count, 97).fill_(std::numeric_limits<double>::quiet_NaN());
          at::Tensor tensor = values.to(dtype);
          group.all_reduce(tensor, op);
          at::Tensor all = at::empty({group.world_size() * count}, dtype);
          group.all_gather(all, tensor);
          for (int rank = 0; rank < group.world_size(); ++rank) {
            EXPECT_TRUE(same_bits(all.slice(0, rank * count, (rank + 1) * count), all.slice(0, 0, count)));
          }
        }
      }
    }
  });
}

TEST_P(Collectives, IntegersWrapAround) {
  each_rank([](Communicator& group) {
    at::Tensor tensor = at::full({3}, std::numeric_limits<std::int64_t>::max(), at::kLong);
    group.all_reduce(tensor);
    const auto want = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) *
                      static_cast<std::uint64_t>(group.world_size());
    EXPECT_EQ(tensor[0].item<std::int64_t>(), static_cast<std::int64_t>(want));
  });
}

}  // namespace
}  // namespace lockstep
