// Feeds every target its seeds, every input that once was a fault, and small changes of both. The same targets run for
// as long as wanted, guided by what they reach, with scripts/fuzz.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"

namespace lockstep::fuzz {
namespace {

// Sorted by name, so that every run has the same order.
std::vector<std::string> seeds_of(const std::string& target) {
  const std::filesystem::path folder = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "fuzz/seeds" / target;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// One to four small changes: a byte, a piece cut out, a piece twice, a number at its limit.
std::string changed(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (std::size_t change = 0, count = 1 + below(4); change < count; ++change) {
    if (bytes.empty()) return bytes;
    const std::size_t at = below(bytes.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(16, bytes.size() - at));
    switch (below(5)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.insert(at, "99999999999999999999");
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

class FuzzSeeds : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzSeeds, AreReadOrRefused) {
  const std::vector<std::string> seeds = seeds_of(GetParam().name);
  ASSERT_FALSE(seeds.empty());
  std::mt19937 random(1);
  for (const std::string& seed : seeds) {
    ASSERT_NO_THROW(run_target(GetParam(), seed)) << ::testing::PrintToString(seed);
    for (int i = 0; i < 300; ++i) {
      const std::string bytes = changed(seed, random);
      ASSERT_NO_THROW(run_target(GetParam(), bytes)) << ::testing::PrintToString(bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeeds, ::testing::ValuesIn(targets()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep::fuzz
