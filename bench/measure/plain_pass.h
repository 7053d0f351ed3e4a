#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// Memory at its best: on large pages where the system has them; fp32 ones.
at::Tensor make_plain(std::int64_t numel);

/// All memory once, side by side, as an update goes through it: several streams together are faster than one by one.
/// What is written is multiplied in place. Tensors are fp32 and of one size.
void pass_through(const std::vector<at::Tensor>& written, const std::vector<at::Tensor>& read);

}  // namespace lockstep
