#include "lockstep/launch/ranks/device_count.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

namespace lockstep {
namespace {

// WSL2 has the library, and no device in /dev.
TEST(DeviceCount, IsTheDriversWhereItHasALibrary) {
  EXPECT_EQ(gpus_by_driver(LOCKSTEP_IMITATED_NVML), 3);
  EXPECT_EQ(gpus_by_driver("libthere-is-no-such-library.so.1"), 0);
  EXPECT_EQ(gpus_by_driver("libc.so.6"), 0) << "another library";
}

// A library that is loaded is the one that is found by its name.
TEST(DeviceCount, IsAskedOfTheDriverIfNoDeviceCanBeOpened) {
  const char* kept = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string before = kept == nullptr ? "" : kept;
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const int own = visible_gpus();
  void* const library = ::dlopen(LOCKSTEP_IMITATED_NVML, RTLD_LAZY | RTLD_LOCAL);
  const int seen = visible_gpus();
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  const int chosen = visible_gpus();
  ::dlclose(library);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  if (kept != nullptr) ::setenv("CUDA_VISIBLE_DEVICES", before.c_str(), 1);
  if (own > 0) GTEST_SKIP() << "this host has devices";
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(chosen, 2);
}

}  // namespace
}  // namespace lockstep
