// Tests where each fact lies behind the gradients of the last bucket. The number of facts decides where engines cut
// that message, and with it the bits of sums that depend on an element's place; by their number a launcher's memory is
// recognised, too. So a fact that comes or goes must not move the others.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/parallel/agreement/frozen_parameters.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kModule = 5;

struct FlagsLayout {
  FlagsLayout(const Group& group, int parameters, bool counts_updates = false) {
    ReducerParameters of_reducer;
    for (int i = 0; i < parameters; ++i) {
      of_reducer.dense.push_back({"p" + std::to_string(i), torch::full({3}, 0.5 + i).requires_grad_(true)});
    }
    ReducerOptions options;
    options.counts_updates = counts_updates;
    options.module = kModule;
    reducer = Reducer::make(of_reducer, group, options);
    named = of_reducer.dense;
  }

  at::Tensor forward(std::size_t first_used) {
    reducer->prepare(true, true);
    at::Tensor loss = torch::zeros({});
    for (std::size_t i = first_used; i < named.size(); ++i) loss = loss + named[i].tensor.sum();
    reducer->watch_output(loss);
    return loss;
  }

  // As they were sent: the last backward's.
  std::vector<float> flags() const {
    const at::Tensor tail = reducer->backward().buckets()[reducer->backward().buckets().size() - 1].tail;
    return {tail.data_ptr<float>(), tail.data_ptr<float>() + tail.numel()};
  }

  std::shared_ptr<Reducer> reducer;
  std::vector<NamedTensor> named;
};

// Two numbers a bit, lowest first: some rank has it, some rank has it not.
std::vector<float> flag_pairs(std::size_t count, std::uint64_t bits) {
  std::vector<float> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_set = ((bits >> i) & 1) != 0;
    pairs.push_back(is_set ? 1 : 0);
    pairs.push_back(is_set ? 0 : 1);
  }
  return pairs;
}

std::vector<float> flags_from(const std::vector<float>& flags, std::size_t at, std::size_t count) {
  const auto begin = flags.begin() + static_cast<std::ptrdiff_t>(at);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

TEST(FlagsLayout, HasTheSameNumberOfFacts) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    fuse_ranks("thread", ranks, [&](const Group& group) {
      for (const int parameters : {3, 7}) {
        const auto expected = static_cast<std::size_t>(2 * parameters + ranks + 185);
        EXPECT_EQ(FlagsLayout(group, parameters).flags().size(), expected);
        EXPECT_EQ(FlagsLayout(group, parameters, /*counts_updates=*/true).flags().size(), expected + 128);
      }
    });
  }
}

TEST(FlagsLayout, HasEachFactInItsPlace) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    fuse_ranks("thread", ranks, [&](const Group& group) {
      for (const std::size_t parameters : {3U, 7U}) {
        FlagsLayout it(group, static_cast<int>(parameters));
        for (int unused = 0; unused < 3; ++unused) it.forward(0);
        it.forward(1).backward();
        const std::vector<float> flags = it.flags();
        std::vector<float> contributed(parameters, 1);
        contributed[0] = 0;
        EXPECT_EQ(flags_from(flags, 0, parameters), contributed);
        const std::size_t late = parameters, joined = 2 * parameters, moved = joined + static_cast<std::size_t>(ranks);
        EXPECT_EQ(flags_from(flags, late, parameters), std::vector<float>(parameters, 0));
        EXPECT_EQ(flags_from(flags, joined, group->world_size()), std::vector<float>(group->world_size(), 0));
        EXPECT_EQ(flags[moved], 0);
        for (std::size_t bit = 0; bit < 32; ++bit) {
          EXPECT_EQ(flags[moved + 1 + 2 * bit] + flags[moved + 2 + 2 * bit], 1) << "replicas, bit " << bit;
        }
        EXPECT_EQ(flags_from(flags, moved + 65, 64), std::vector<float>(64, 0)) << "averages put aside: none said";
        EXPECT_EQ(flags_from(flags, moved + 129, 16), flag_pairs(8, kModule));
        EXPECT_EQ(flags_from(flags, moved + 145, 32), flag_pairs(16, FrozenParameters(it.named).number()));
        EXPECT_EQ(flags_from(flags, moved + 177, 8), flag_pairs(4, 3)) << "forwards without a backward";
      }
    });
  }
}

// The parameters' memory is another one since the last backward, and two of them are frozen.
TEST(FlagsLayout, SaysWhatMovedAndIsFrozen) {
  fuse_ranks("thread", 2, [&](const Group& group) {
    FlagsLayout it(group, 3);
    it.forward(0).backward();
    EXPECT_EQ(it.flags()[8], 0);
    it.named[2].tensor.set_data(it.named[2].tensor.detach().to(at::kDouble));
    it.named[2].tensor.set_data(it.named[2].tensor.detach().to(at::kFloat));
    it.named[0].tensor.requires_grad_(false);
    it.forward(0).backward();
    EXPECT_EQ(it.flags()[8], 1);
    EXPECT_EQ(flags_from(it.flags(), 8 + 145, 32), flag_pairs(16, FrozenParameters(it.named).number()));
    EXPECT_NE(FrozenParameters(it.named).number() & 0xffff, 0U);
  });
}

}  // namespace
}  // namespace lockstep
