// Forms of collective calls: tensors in any layout, asynchronous calls, groups, any order of arrival; send and recv.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>

#include "lockstep/base/error.h"
#include "tests/comm/contract.h"

namespace lockstep {
namespace {

class Calls : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, Calls, ::testing::ValuesIn(placements({1, 2, 3, 4})), placement_name);

at::Tensor full(std::int64_t count, double value) { return at::full({count}, value, at::kFloat); }
double triangle(int n) { return n * (n + 1) / 2.0; }

TEST_P(Calls, TensorsNeedNotBeContiguous) {
  each_rank([](Communicator& group) {
    const int size = group.world_size();
    at::Tensor base = at::zeros({10, 6}, at::kFloat);
    at::Tensor strided = base.slice(0, 0, 10, 2);
    strided.fill_(group.rank() + 1);
    group.all_reduce(strided);
    EXPECT_TRUE(strided.eq(triangle(size)).all().item<bool>());
    EXPECT_TRUE(base.slice(0, 1, 10, 2).eq(0).all().item<bool>());

    const at::Tensor in = at::arange(6, at::kFloat).reshape({2, 3}).add(10 * group.rank()).t();
    at::Tensor out = at::zeros({2, 3 * size, 2}, at::kFloat).select(0, 1);
    group.all_gather(out, in);
    for (int rank = 0; rank < size; ++rank) {
      const at::Tensor want = at::arange(6, at::kFloat).reshape({2, 3}).add(10 * rank).t();
      EXPECT_TRUE(out.slice(0, 3 * rank, 3 * (rank + 1)).equal(want));
    }

    at::Tensor column = at::full({4, 4}, group.rank(), at::kLong).select(1, 2);
    group.broadcast(column, size - 1);
    EXPECT_TRUE(column.eq(size - 1).all().item<bool>());
  });
}

TEST_P(Calls, TensorsThatRequireGradAreChangedInPlace) {
  each_rank([](Communicator& group) {
    at::Tensor parameter = full(5, group.rank() + 1).requires_grad_(true);
    group.broadcast(parameter, 0);
    EXPECT_TRUE(parameter.requires_grad());
    EXPECT_TRUE(parameter.detach().eq(1).all().item<bool>());
  });
}

TEST_P(Calls, AsynchronousOperationsRunInOrder) {
  each_rank([](Communicator& group) {
    const int size = group.world_size();
    std::vector<at::Tensor> tensors;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 30; ++i) {
      tensors.push_back(full(1 + 1000 * i, group.rank() + i));
      works.push_back(i % 3 == 2 ? group.broadcast_async(tensors.back(), i % size)
                                 : group.all_reduce_async(tensors.back()));
    }
    at::Tensor now = full(3, 1);
    group.all_reduce(now);  // after the queued ones
    EXPECT_TRUE(now.eq(size).all().item<bool>());
    for (int i = 29; i >= 0; --i) {
      works[static_cast<std::size_t>(i)]->wait();
      works[static_cast<std::size_t>(i)]->wait();
      EXPECT_TRUE(works[static_cast<std::size_t>(i)]->is_completed());
      const double want = i % 3 == 2 ? i % size + i : triangle(size) - size + i * size;
      EXPECT_TRUE(tensors[static_cast<std::size_t>(i)].eq(want).all().item<bool>()) << i;
    }
  });
}

TEST_P(Calls, LargeOperationsMayBeginBeforeThoseAheadEnd) {
  each_rank([](Communicator& group) {
    const int size = group.world_size(), rank = group.rank();
    constexpr std::int64_t kLarge = 300'000, kSmall = 50;
    struct Round {
      at::Tensor sum, strided, gathered, scattered, exchanged, small;
    };
    std::vector<Round> rounds;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 4; ++i) {
      Round round{full(kLarge + 7 * i, rank + i), at::full({kLarge, 2}, rank + i, at::kFloat).select(1, 1),
                  full(kLarge * size, -1),        full(kLarge, -1),
                  full(kLarge * size, -1),        full(kSmall, rank + i)};
      works.push_back(group.all_reduce_async(round.sum));
      works.push_back(group.all_reduce_async(round.small));
      works.push_back(group.all_reduce_async(round.strided));
      works.push_back(group.all_gather_async(round.gathered, full(kLarge, rank + i)));
      works.push_back(group.reduce_scatter_async(round.scattered, full(kLarge * size, rank + i)));
      works.push_back(group.all_to_all_async(round.exchanged, full(kLarge * size, rank + i)));
      rounds.push_back(std::move(round));
    }
    for (const auto& work : works) work->wait();
    for (int i = 0; i < 4; ++i) {
      const double sum = triangle(size) - size + i * size;
      const Round& round = rounds[static_cast<std::size_t>(i)];
      for (const at::Tensor& tensor : {round.sum, round.small, round.strided, round.scattered}) {
        EXPECT_TRUE(tensor.eq(sum).all().item<bool>()) << i;
      }
      for (const at::Tensor& tensor : {round.gathered, round.exchanged}) {
        for (int from = 0; from < size; ++from) {
          EXPECT_TRUE(tensor.narrow(0, from * kLarge, kLarge).eq(from + i).all().item<bool>()) << i << " of " << from;
        }
      }
    }
  });
}

TEST_P(Calls, EveryAsynchronousForm) {
  each_rank([](Communicator& group) {
    const int size = group.world_size();
    const int rank = group.rank();
    at::Tensor reduced = full(10, rank + 1);
    at::Tensor all = full(10 * size, -1);
    at::Tensor shard = full(10, -1);
    at::Tensor gathered = rank == 0 ? full(10 * size, -1) : at::Tensor();
    at::Tensor scattered = full(10, -1);
    at::Tensor exchanged = full(10 * size, -1);
    std::vector<std::shared_ptr<Work>> works;
    works.push_back(group.reduce_async(reduced, size - 1));
    works.push_back(group.all_gather_async(all, full(10, rank)));
    works.push_back(group.reduce_scatter_async(shard, full(10 * size, rank + 1)));
    works.push_back(group.gather_async(gathered, full(10, rank)));
    works.push_back(group.scatter_async(scattered, rank == 0 ? at::arange(10 * size, at::kFloat) : at::Tensor()));
    works.push_back(group.all_to_all_async(exchanged, full(10 * size, rank)));
    works.push_back(group.barrier_async());
    for (const auto& work : works) work->wait();
    const at::Tensor ranks = at::arange(size, at::kFloat).repeat_interleave(10);
    if (rank == size - 1) {
      EXPECT_TRUE(reduced.eq(triangle(size)).all().item<bool>());
    }
    EXPECT_TRUE(all.equal(ranks));
    EXPECT_TRUE(shard.eq(triangle(size)).all().item<bool>());
    if (rank == 0) {
      EXPECT_TRUE(gathered.equal(ranks));
    }
    EXPECT_TRUE(scattered.equal(at::arange(10 * rank, 10 * (rank + 1), at::kFloat)));
    EXPECT_TRUE(exchanged.equal(ranks));
  });
}

TEST_P(Calls, WhoeverComesLast) {
  each_rank([](Communicator& group) {
    Store& store = *group.membership().store;
    for (int late = 0; late < group.world_size(); ++late) {
      const std::string prefix = "late" + std::to_string(late) + ".";
      store.set(prefix + std::to_string(group.rank()), "about to call");
      if (group.rank() == late) {
        for (int rank = 0; rank < group.world_size(); ++rank) {
          store.get(prefix + std::to_string(rank), Deadline::after(std::chrono::seconds(20)));
        }
      }
      at::Tensor tensor = full(100, group.rank() + 1);
      group.all_reduce(tensor);
      EXPECT_TRUE(tensor.eq(triangle(group.world_size())).all().item<bool>());
      group.broadcast(tensor, late);
      group.barrier();
    }
  });
}

TEST_P(Calls, BarrierWaitsForEverybody) {
  each_rank([](Communicator& group) {
    Store& store = *group.membership().store;
    for (int round = 1; round <= 20; ++round) {
      store.add("came", 1);
      group.barrier();
      EXPECT_GE(store.add("came", 0), round * group.world_size());
    }
  });
}

// Seconds over slow engines: 600 operations wait for each other.
TEST_P(Calls, ManySmallOperations) {
  each_rank([](Communicator& group) {
    at::Tensor tensor = full(7, 1);
    const at::Tensor ones = full(7, 1);
    for (int i = 0; i < 300; ++i) {
      group.all_reduce(tensor, ReduceOp::Avg);
      group.barrier();
      EXPECT_TRUE(tensor.equal(ones));
    }
  });
}

TEST_P(Calls, GroupsBySplit) {
  each_rank([](Communicator& group) {
    const int size = group.world_size();
    const int color = group.rank() % 2;
    // In reverse order in the new group.
    const auto half = group.split(color, -group.rank());
    const int members = color == 0 ? (size + 1) / 2 : size / 2;
    ASSERT_EQ(half->world_size(), members);
    EXPECT_EQ(half->rank(), members - 1 - group.rank() / 2);
    at::Tensor tensor = full(50, group.rank());
    half->all_reduce(tensor);
    double want = 0;
    for (int rank = color; rank < size; rank += 2) want += rank;
    EXPECT_TRUE(tensor.eq(want).all().item<bool>());

    const auto none = group.split(group.rank() == 0 ? -1 : 0);
    EXPECT_EQ(none == nullptr, group.rank() == 0);
    if (none) {
      at::Tensor ones = full(5, 1);
      none->all_reduce(ones);
      EXPECT_TRUE(ones.eq(size - 1).all().item<bool>());
    }
    // Both groups and the whole one at once.
    at::Tensor first = full(1000, 1);
    at::Tensor second = full(1000, 1);
    const auto one = half->all_reduce_async(first);
    const auto other = group.all_reduce_async(second);
    other->wait();
    one->wait();
    EXPECT_TRUE(first.eq(members).all().item<bool>());
    EXPECT_TRUE(second.eq(size).all().item<bool>());
  });
}

TEST_P(Calls, SplitOfASplit) {
  each_rank([](Communicator& group) {
    const auto same = group.split(0);
    const auto alone = same->split(same->rank());
    EXPECT_EQ(alone->world_size(), 1);
    at::Tensor tensor = full(4, 3);
    alone->all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(3).all().item<bool>());
    const auto again = same->split(0);
    again->all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(3 * group.world_size()).all().item<bool>());
  });
}

class Messages : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, Messages, ::testing::ValuesIn(placements({2, 3, 4})), placement_name);

TEST_P(Messages, RoundTheRing) {
  each_rank([](Communicator& group) {
    const int next = (group.rank() + 1) % group.world_size();
    const int previous = (group.rank() + group.world_size() - 1) % group.world_size();
    for (const std::int64_t count : {0, 1, 1000, 500000}) {
      at::Tensor tensor = full(count, 1);
      if (group.rank() == 0) {
        group.send(tensor, next);
        group.recv(tensor, previous);
        EXPECT_TRUE(tensor.eq(group.world_size()).all().item<bool>());
      } else {
        tensor.fill_(-1);
        group.recv(tensor, previous);
        tensor.add_(1);
        group.send(tensor, next);
      }
    }
  });
}

TEST_P(Messages, BothWaysAtOnceWithTags) {
  each_rank([](Communicator& group) {
    const int next = (group.rank() + 1) % group.world_size();
    const int previous = (group.rank() + group.world_size() - 1) % group.world_size();
    std::vector<at::Tensor> got;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 8; ++i) {
      works.push_back(group.isend(full(20000 * i, 100 * group.rank() + i), next, i % 3));
    }
    for (int i = 0; i < 8; ++i) {
      got.push_back(full(20000 * i, -1));
      works.push_back(group.irecv(got.back(), previous, i % 3));
    }
    at::Tensor beside = full(1000, 1);
    group.all_reduce(beside);
    for (const auto& work : works) work->wait();
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(got[static_cast<std::size_t>(i)].eq(100 * previous + i).all().item<bool>()) << i;
    }
    EXPECT_TRUE(beside.eq(group.world_size()).all().item<bool>());
  });
}

TEST_P(Messages, TwoRanksCallWhileOthersDoNot) {
  each_rank([](Communicator& group) {
    at::Tensor tensor = full(10, group.rank());
    if (group.rank() == 0) group.send(tensor, 1, 7);
    if (group.rank() == 1) {
      group.recv(tensor, 0, 7);
      EXPECT_TRUE(tensor.eq(0).all().item<bool>());
    }
    group.barrier();
  });
}

}  // namespace
}  // namespace lockstep
