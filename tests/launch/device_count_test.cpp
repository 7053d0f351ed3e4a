#include "lockstep/launch/ranks/device_count.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// WSL2 has the library, and no device in /dev.
TEST(DeviceCount, IsTheDriversWhereItHasALibrary) {
  EXPECT_EQ(gpus_by_driver(LOCKSTEP_IMITATED_NVML), 3);
  EXPECT_EQ(gpus_by_driver("libthere-is-no-such-library.so.1"), 0);
  EXPECT_EQ(gpus_by_driver("libc.so.6"), 0) << "another library";
}

}  // namespace
}  // namespace lockstep
