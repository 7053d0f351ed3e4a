#include "lockstep/parallel/backward/backward_flags.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

namespace lockstep {
namespace {

// What ranks know after their flags were reduced. @param say  by rank
BackwardFlags flags_of_all(const BackwardFlags& claimed, const std::vector<std::function<void(BackwardFlags&)>>& say,
                           at::ScalarType dtype, bool is_average) {
  at::Tensor sum = at::zeros({claimed.numel()}, at::TensorOptions().dtype(dtype));
  for (const auto& of_rank : say) {
    BackwardFlags mine = claimed;
    of_rank(mine);
    at::Tensor message = at::empty_like(sum);
    mine.write(message);
    sum += message;
  }
  if (is_average) sum.div_(static_cast<std::int64_t>(say.size()));
  BackwardFlags all = claimed;
  all.read(sum);
  return all;
}

struct BackwardFlagsTest : ::testing::TestWithParam<std::tuple<at::ScalarType, bool>> {
  BackwardFlags all_of(const std::vector<std::function<void(BackwardFlags&)>>& say) const {
    return flags_of_all(claimed, say, std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
  BackwardFlags claimed{3, 3};
  BackwardFlags::Any moved = claimed.claim_any();
  BackwardFlags::Equal number = claimed.claim_equal(8), nothing = claimed.claim_equal(0);
};
INSTANTIATE_TEST_SUITE_P(Ways, BackwardFlagsTest,
                         ::testing::Combine(::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                                            ::testing::Bool()));

TEST_P(BackwardFlagsTest, KnowWhatAnyRankSays) {
  const auto nobody = [](BackwardFlags&) {};
  const BackwardFlags all = all_of({nobody,
                                    [this](BackwardFlags& mine) {
                                      mine.say(moved);
                                      mine.set_contributed(1);
                                      mine.set_joined(1);
                                    },
                                    [](BackwardFlags& mine) { mine.set_late(2); }});
  EXPECT_TRUE(all.is_said(moved));
  EXPECT_TRUE(all.contributed(1));
  EXPECT_FALSE(all.contributed(0) || all.contributed(2));
  EXPECT_TRUE(all.late(2) && all.any_late());
  EXPECT_FALSE(all.late(0) || all.late(1));
  EXPECT_EQ(all.active_ranks(), (std::vector<bool>{true, false, true}));
  const BackwardFlags silent = all_of({nobody, nobody, nobody});
  EXPECT_FALSE(silent.is_said(moved) || silent.any_late() || silent.differs(number));
}

// The claimed bits of a number are compared, on the ranks that say one.
TEST_P(BackwardFlagsTest, KnowWhetherNumbersDiffer) {
  const auto says = [this](std::uint64_t value) { return [=](BackwardFlags& mine) { mine.say(number, value); }; };
  const auto nobody = [](BackwardFlags&) {};
  EXPECT_FALSE(all_of({says(0x5a), says(0x5a), says(0x5a)}).differs(number));
  EXPECT_FALSE(all_of({says(0x5a), nobody, says(0x15a)}).differs(number));
  EXPECT_EQ(all_of({says(0x5a), says(0x5a), says(0x7b)}).differing_bits(number), 0x21U);
  EXPECT_FALSE(all_of({[this](BackwardFlags& mine) { mine.say(nothing, 1); }, nobody,
                       [this](BackwardFlags& mine) { mine.say(nothing, 2); }})
                   .differs(nothing));
}

}  // namespace
}  // namespace lockstep
