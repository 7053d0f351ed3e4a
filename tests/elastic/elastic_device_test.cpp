#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/elastic/on_rank_change.h"

namespace lockstep {
namespace {

TEST(ElasticDevice, OtherThanTheCpuIsRefusedBeforeTheJobIsJoined) {
  ElasticState state;
  state.tensors = {at::zeros({2}), at::zeros({2}, at::TensorOptions(c10::Device(c10::kMeta)))};
  try {
    const auto run = on_rank_change(state, [](const std::shared_ptr<Communicator>& /*group*/) { return 0; });
    FAIL() << "it was not refused";
  } catch (const UsageError& error) {
    EXPECT_NE(error.happened().find("survives lost ranks cannot use a tensor on meta"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep
