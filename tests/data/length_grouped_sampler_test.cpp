#include "lockstep/data/length_grouped_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

#include "tests/data/python_program.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using Indices = std::vector<std::int64_t>;

Indices grouped(const Indices& lengths, const LengthGroupedSamplerOptions& options, std::int64_t epoch = 0) {
  LengthGroupedSampler sampler(lengths, options);
  sampler.set_epoch(epoch);
  return sampler.indices();
}

TEST(LengthGroupedSampler, SortsPartsAndPutsTheLongestFirst) {
  // torch.randperm(5) after manual_seed(0): 4 0 1 3 2. Batches of 1: 5 / 4 = 1 batch per part, so nothing is sorted,
  // but the longest sample, 3, is swapped with the first.
  EXPECT_EQ(grouped({1, 2, 3, 9, 5}, {1, 1}), (Indices{3, 0, 1, 4, 2}));
  // Batches of 3: parts of one batch each, 4 0 1 and 3 2, sorted by length to 4 1 0 and 3 2.
  EXPECT_EQ(grouped({1, 2, 3, 9, 5}, {3, 1}), (Indices{3, 1, 0, 4, 2}));
  // Equal lengths stay in the permutation's order.
  EXPECT_EQ(grouped({7, 7, 7, 7, 7}, {5, 1}), (Indices{4, 0, 1, 3, 2}));
}

TEST(LengthGroupedSampler, ReplicasShareAnEpoch) {
  Indices lengths(1000);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i * 37 % 211);
  LengthGroupedSamplerOptions options;
  options.batch_size = 8;
  options.num_replicas = 3;
  std::multiset<std::int64_t> taken;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    options.rank = rank;
    const Indices share = grouped(lengths, options, 2);
    EXPECT_EQ(share.size(), 334U);
    taken.insert(share.begin(), share.end());
    // In batches of 8 a random order pads four fifths of the tokens, this one a sixth.
    std::int64_t padding = 0;
    for (std::size_t begin = 0; begin < share.size(); begin += 8) {
      std::int64_t longest = 0, sum = 0, count = 0;
      for (std::size_t i = begin; i < std::min(begin + 8, share.size()); ++i, ++count) {
        longest = std::max(longest, lengths[share[i]]);
        sum += lengths[share[i]];
      }
      padding += longest * count - sum;
    }
    EXPECT_LT(padding, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) / 3 / 5);
  }
  EXPECT_EQ(taken.size(), 1002U);
  EXPECT_EQ(std::set<std::int64_t>(taken.begin(), taken.end()).size(), 1000U);
  options.rank = 0;
  EXPECT_NE(grouped(lengths, options, 2), grouped(lengths, options, 3));
  options.drop_last = true;
  EXPECT_EQ(grouped(lengths, options).size(), 333U);
}

TEST(LengthGroupedSampler, GoesOnAtASavedPosition) {
  const Indices lengths{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  LengthGroupedSampler sampler(lengths, {2, 1});
  sampler.set_epoch(3);
  sampler.begin_epoch();
  sampler.advance(4);
  LengthGroupedSampler resumed(lengths, {2, 1});
  resumed.load_state(sampler.state());
  const SamplerState state = resumed.begin_epoch();
  EXPECT_EQ(state.position, 4);
  EXPECT_EQ(resumed.indices(state, 4, 6), sampler.indices(sampler.state(), 4, 6));
}

TEST(LengthGroupedSampler, RefusesWhatMakesNoSense) {
  expect_error("dataset of 0 samples", [] { LengthGroupedSampler({}, {1, 1}); });
  expect_error("batch_size 0", [] { LengthGroupedSampler({1}, {0, 1}); });
  expect_error("Invalid rank 2", [] { LengthGroupedSampler({1}, {1, 2, 2}); });
}

// The order as Hugging Face describes it, implemented independently over torch's permutation. One line per case: n
// batch replicas rank epoch drop_last: indices. Lengths are i * i % 23.
const char* const kGroupingScript = R"(
import itertools, torch
for n, batch, replicas, epoch, drop in itertools.product([1,5,16,40,333,1000], [1,3,8,64], [1,2,3], [0,4], [0,1]):
    if n < replicas: continue
    size = [i * i % 23 for i in range(n)]
    torch.manual_seed(7 + epoch)
    order = torch.randperm(n).tolist()
    together = max(1, min(50, n // (4 * batch))) * batch
    parts = [sorted(order[at:at + together], key=lambda i: -size[i]) for at in range(0, n, together)]
    heads = [size[part[0]] for part in parts]
    first = heads.index(max(heads))
    parts[0][0], parts[first][0] = parts[first][0], parts[0][0]
    flat = list(itertools.chain(*parts))
    total = n // replicas * replicas if drop else -(-n // replicas) * replicas
    flat = (flat + flat)[:total]
    for rank in range(replicas):
        print(n, batch, replicas, rank, epoch, drop, *flat[rank::replicas])
)";

// Python takes most of the two seconds: it imports torch.
TEST(LengthGroupedSampler, OrderIsThatOfHuggingFace) {
  const std::string want = run_python(kGroupingScript);
  if (want.empty()) GTEST_SKIP() << "no python3 with torch (python3-torch) to compare with";
  std::ostringstream got;
  for (const std::int64_t n : {1, 5, 16, 40, 333, 1000}) {
    Indices lengths(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) lengths[i] = i * i % 23;
    for (const std::int64_t batch : {1, 3, 8, 64})
      for (const std::int64_t replicas : {1, 2, 3})
        for (const std::int64_t epoch : {0, 4})
          for (const bool drop : {false, true})
            for (std::int64_t rank = 0; rank < replicas && n >= replicas; ++rank) {
              got << n << ' ' << batch << ' ' << replicas << ' ' << rank << ' ' << epoch << ' ' << drop;
              for (const std::int64_t i : grouped(lengths, {batch, replicas, rank, 7, drop}, epoch)) got << ' ' << i;
              got << '\n';
            }
  }
  EXPECT_EQ(got.str(), want);
}

}  // namespace
}  // namespace lockstep
