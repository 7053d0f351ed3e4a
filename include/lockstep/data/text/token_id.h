#pragma once

#include <cstdint>

namespace lockstep {

/// Number of a token in a vocabulary; never negative in what a tokenizer returns.
using TokenId = std::int32_t;

}  // namespace lockstep
