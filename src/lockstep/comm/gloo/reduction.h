#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "lockstep/comm/operation.h"

namespace lockstep {

/// out[i] = in[0][i] op in[1][i] op ..., in this order, so that every rank that reduces the same values gets the same
/// bits; `Avg` divides the sum by `inputs`. fp16 and bf16 are accumulated in fp32 and rounded once. Min and max of a
/// NaN are NaN; integers wrap around. `out` may be one of `in`.
/// @param dtype  one that communicators carry; `Avg` on floating point only
void reduce_arrays(c10::ScalarType dtype, ReduceOp op, void* out, const void* const* in, int inputs,
                   std::int64_t count);

}  // namespace lockstep
