#include "lockstep/base/text/precision_name.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(PrecisionName, IsShortForEveryNameOfAType) {
  for (const char* name : {"fp32", "float32", "float", "FP32", "torch.float32"})
    EXPECT_EQ(precision_name(name), "fp32");
  for (const char* name : {"bf16", "bfloat16", "BF16", "torch.bfloat16"}) EXPECT_EQ(precision_name(name), "bf16");
  for (const char* name : {"fp16", "float16", "half", "Half"}) EXPECT_EQ(precision_name(name), "fp16");
  for (const char* name : {"", "no", "fp8", "torch.", "bf 16"}) EXPECT_EQ(precision_name(name), name);
}

}  // namespace
}  // namespace lockstep
