#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "lockstep/comm/factory.h"
#include "lockstep/launch/ranks/device_count.h"

namespace lockstep {

/// Whether the devices are those of tests/fake_gpu, whose NCCL fails on demand, and which count.
inline bool has_imitated_devices() { return std::getenv("FAKE_GPU_DEVICES") != nullptr; }

/// How many devices a process that uses CUDA would see: the fake ones if they are preloaded (tests/fake_gpu).
inline int devices_for_tests() {
  const char* fake = std::getenv("FAKE_GPU_DEVICES");
  return fake != nullptr ? std::atoi(fake) : visible_gpus();
}

/// Why a test that needs so many CUDA devices cannot run here; nothing if it can. Does not touch CUDA, which would
/// not work in processes forked afterwards: tests use it in such processes only.
inline std::optional<std::string> why_no_cuda(int devices) {
  for (const MissingEngine& missing : missing_engines()) {
    if (missing.name == std::string("nccl")) return "engine nccl: not built: " + std::string(missing.reason);
  }
  const int seen = devices_for_tests();
  if (seen >= devices) return std::nullopt;
  return std::to_string(devices) + " CUDA devices are needed, " + std::to_string(seen) + " are there";
}

}  // namespace lockstep

/// For tests/fake_gpu/count_tests.py: the results say on how many devices a test runs.
#define SKIP_WITHOUT_CUDA(devices)                       \
  ::testing::Test::RecordProperty("devices", (devices)); \
  if (const auto why = ::lockstep::why_no_cuda(devices)) GTEST_SKIP() << *why
