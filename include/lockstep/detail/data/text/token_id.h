#pragma once

#include <cstdint>

namespace lockstep {

/// Number of a token in a vocabulary. A tokenizer never returns a negative one.
using TokenId = std::int32_t;

}  // namespace lockstep
