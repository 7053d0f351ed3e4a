// Tests what ranks learn from slots of the agreement before an update.
#include "lockstep/parallel/fused/agreement/update_agreement.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using Values = std::vector<std::optional<std::uint32_t>>;

UpdateAgreement agreement_of(const Group& group) { return {3, group->world_size()}; }

// Each rank says its value in the second of three slots.
void expect_value(const Values& values, std::optional<std::uint32_t> agreed, std::uint32_t differing) {
  fuse_ranks("thread", static_cast<int>(values.size()), [&](const Group& group) {
    UpdateAgreement agreement = agreement_of(group);
    const auto before = agreement.equal<std::uint16_t>();
    const auto slot = agreement.equal<std::uint32_t>();
    const auto behind = agreement.any();
    agreement.clear();
    if (const auto value = values[static_cast<std::size_t>(group->rank())]) agreement.say(slot, *value);
    agreement.exchange(*group);
    EXPECT_EQ(agreement.differs(slot), differing != 0);
    EXPECT_EQ(agreement.differing_bytes(slot), differing);
    EXPECT_TRUE(differing != 0 || agreement.value(slot) == agreed);
    EXPECT_FALSE(agreement.value(before));
    EXPECT_FALSE(agreement.said(behind));
  });
}

TEST(UpdateAgreement, AValueIsThatOfTheRanksThatSayOne) {
  expect_value({std::nullopt, std::nullopt}, std::nullopt, 0);
  expect_value({0u, std::nullopt}, 0u, 0);  // 0 is a value, too
  expect_value({std::nullopt, 7u, 7u}, 7u, 0);
  expect_value({0xffffffffu, 0xffffffffu}, 0xffffffffu, 0);
}

TEST(UpdateAgreement, ValuesThatDifferDoSoByByte) {
  expect_value({1u, 2u}, {}, 0xff);
  expect_value({0u, 0xffu, std::nullopt}, {}, 0xff);
  expect_value({0x00010000u, 0x00020003u}, {}, 0x00ff00ff);
}

TEST(UpdateAgreement, OneRankThatSaysSoIsEnough) {
  fuse_ranks("thread", 3, [](const Group& group) {
    UpdateAgreement agreement = agreement_of(group);
    const auto first = agreement.any();
    const auto second = agreement.any();
    for (int turn = 0; turn < 2; ++turn) {
      agreement.clear();
      if (group->rank() == 1) agreement.say(turn == 0 ? first : second);
      agreement.contributed()[0] = group->rank() == 2 ? 1 : 0;
      agreement.exchange(*group);
      EXPECT_EQ(agreement.said(first), turn == 0);
      EXPECT_EQ(agreement.said(second), turn == 1);
      EXPECT_EQ(agreement.contributed(), (std::vector<std::uint8_t>{1, 0, 0}));
      EXPECT_FALSE(agreement.faulty());
    }
  });
}

UpdateRequest clipping_to(double max_norm) {
  UpdateRequest request;
  request.kind = UpdateRequest::Kind::Norm;
  request.clip.max_norm = max_norm;
  request.selection = 0x123456789abcdef0;
  return request;
}

TEST(UpdateAgreement, RanksWithoutInputsGetTheOthersRequest) {
  fuse_ranks("thread", 3, [](const Group& group) {
    UpdateAgreement agreement = agreement_of(group);
    agreement.clear();
    if (group->rank() == 0) {
      agreement.set_joined(0);
    } else {
      agreement.set_request(clipping_to(0.5));
    }
    agreement.exchange(*group);
    EXPECT_FALSE(agreement.requests_differ());
    EXPECT_EQ(agreement.has_request(), group->rank() != 0);
    EXPECT_EQ(agreement.request().kind, UpdateRequest::Kind::Norm);
    EXPECT_EQ(agreement.request().clip.max_norm, 0.5);
    EXPECT_EQ(agreement.request().selection, 0x123456789abcdef0u);
    EXPECT_EQ(agreement.active_ranks(), 2);
    EXPECT_EQ(agreement.lowest_active_rank(), 1);
    EXPECT_EQ(agreement.active(), (std::vector<bool>{false, true, true}));
  });
}

// Texts about the difference name what this rank has asked for.
TEST(UpdateAgreement, RanksWhoseRequestsDifferKeepTheirOwn) {
  fuse_ranks("thread", 2, [](const Group& group) {
    UpdateAgreement agreement = agreement_of(group);
    agreement.clear();
    agreement.set_request(clipping_to(group->rank() + 1));
    agreement.exchange(*group);
    EXPECT_TRUE(agreement.requests_differ());
    EXPECT_EQ(agreement.request().clip.max_norm, group->rank() + 1);
  });
}

}  // namespace
}  // namespace lockstep
