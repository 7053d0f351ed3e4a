// DistributedSampler and random_split compared with PyTorch itself, if a Python with torch is installed.
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/data/distributed_sampler.h"
#include "tests/data/python_program.h"

namespace lockstep {
namespace {

const std::vector<std::int64_t> kSizes{1, 2, 3, 5, 7, 10, 16, 100, 1000};
const std::vector<std::int64_t> kReplicas{1, 2, 3, 4, 7, 16};
const std::vector<std::int64_t> kEpochs{0, 1, 5};
const std::vector<std::uint64_t> kSeeds{0, 42, 4294967301};

// Every combination, one line each: size replicas rank epoch seed shuffle drop_last: indices
const char* const kScript = R"(
import itertools
from torch.utils.data.distributed import DistributedSampler
sizes, replicas, epochs, seeds = [1,2,3,5,7,10,16,100,1000], [1,2,3,4,7,16], [0,1,5], [0,42,4294967301]
for n, r, e, s, shuffle, drop in itertools.product(sizes, replicas, epochs, seeds, [0,1], [0,1]):
    for rank in range(r):
        sampler = DistributedSampler(range(n), r, rank, shuffle=bool(shuffle), seed=s, drop_last=bool(drop))
        sampler.set_epoch(e)
        print(n, r, rank, e, s, shuffle, drop, *sampler)
)";

std::string ours() {
  std::ostringstream out;
  for (const std::int64_t n : kSizes)
    for (const std::int64_t r : kReplicas)
      for (const std::int64_t e : kEpochs)
        for (const std::uint64_t s : kSeeds)
          for (const bool shuffle : {false, true})
            for (const bool drop : {false, true})
              for (std::int64_t rank = 0; rank < r; ++rank) {
                DistributedSampler sampler(n, {r, rank, shuffle, s, drop});
                sampler.set_epoch(e);
                out << n << ' ' << r << ' ' << rank << ' ' << e << ' ' << s << ' ' << shuffle << ' ' << drop;
                for (const std::int64_t index : sampler.indices()) out << ' ' << index;
                out << '\n';
              }
  return out.str();
}

// Python takes most of the two seconds: it imports torch, and makes 10 692 samplers.
TEST(DistributedSamplerParity, EveryCombinationIsPyTorchs) {
  const std::string theirs = run_python(kScript);
  if (theirs.empty()) GTEST_SKIP() << "no python3 with torch (python3-torch) to compare with";
  std::istringstream want(theirs);
  std::istringstream got(ours());
  std::string want_line;
  std::string got_line;
  int lines = 0;
  while (std::getline(want, want_line)) {
    ASSERT_TRUE(std::getline(got, got_line));
    ASSERT_EQ(got_line, want_line);
    ++lines;
  }
  EXPECT_FALSE(std::getline(got, got_line));
  EXPECT_EQ(lines, 9 * (1 + 2 + 3 + 4 + 7 + 16) * 3 * 3 * 2 * 2);
}

}  // namespace
}  // namespace lockstep
