#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/elastic/elastic_loop.h"

namespace lockstep {
namespace {

TEST(ElasticDevice, OtherThanTheCpuIsRefusedBeforeTheJobIsJoined) {
  ElasticState state;
  state.tensors = {at::zeros({2}), at::zeros({2}, at::TensorOptions(c10::Device(c10::kMeta)))};
  try {
    elastic_loop(1, state, [](ElasticSteps&) { FAIL() << "no step may be made"; });
    FAIL() << "it was not refused";
  } catch (const UsageError& error) {
    EXPECT_NE(error.happened().find("survives lost ranks, with a tensor on meta"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
