// Tests mistakes in loops with lockstep::on_rank_change: what elastic_mistakes does.
#include <string>
#include <utility>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

ProgramEnd end_of(const std::string& mistake, const Words& flags = {}) {
  Words all{"--nproc-per-node=2"};
  all.insert(all.end(), flags.begin(), flags.end());
  return run(all, {kBin + "/elastic_mistakes", mistake}, {{"OMP_NUM_THREADS", "1"}});
}

TEST(ElasticMistakes, CallsWithinAStepOrTheFunctionForAGroupAreRefused) {
  const std::pair<const char*, const char*> cases[] = {{"step-in-step", "make_step within make_step"},
                                                       {"end-in-step", "finish within make_step"},
                                                       {"step-in-wrap", "make_step within make_step"}};
  for (const auto& [mistake, refusal] : cases) {
    const ProgramEnd end = end_of(mistake);
    EXPECT_TRUE(has(end.err, refusal)) << end.out << end.err;
  }
}

}  // namespace
}  // namespace lockstep
