#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "lockstep/launch/ranks/device_count.h"

namespace lockstep {

using CudaWords = std::vector<std::string>;

inline const std::string kCudaBin = LOCKSTEP_BIN_DIR;

inline bool are_fake() { return std::getenv("FAKE_GPU_DEVICES") != nullptr; }
inline int devices_here() { return are_fake() ? std::atoi(std::getenv("FAKE_GPU_DEVICES")) : visible_gpus(); }
inline bool cuda_text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lockstep

#define SKIP_BELOW_DEVICES(count)           \
  if (::lockstep::devices_here() < (count)) \
  GTEST_SKIP() << (count) << " CUDA devices are needed, " << ::lockstep::devices_here() << " are there"
