#pragma once

#include <optional>
#include <string>

#include "lockstep/comm/factory.h"
#include "lockstep/launch/ranks/device_count.h"

namespace lockstep {

/// Why a test that needs so many CUDA devices cannot run here; nothing if it can. Does not touch CUDA, which would
/// not work in processes forked afterwards: tests use it in such processes only.
inline std::optional<std::string> why_no_cuda(int devices) {
  for (const MissingEngine& missing : missing_engines()) {
    if (missing.name == std::string("nccl")) return "engine nccl: not built: " + std::string(missing.reason);
  }
  const int seen = visible_gpus();
  if (seen >= devices) return std::nullopt;
  return std::to_string(devices) + " CUDA devices are needed, " + std::to_string(seen) + " are there";
}

}  // namespace lockstep

#define SKIP_WITHOUT_CUDA(devices) \
  if (const auto why = ::lockstep::why_no_cuda(devices)) GTEST_SKIP() << *why
