#pragma once

#include <string>

namespace lockstep {

/// What to do about an error in NCCL's or CUDA's words.
std::string advice_after(const std::string& text);

}  // namespace lockstep
