#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// The fastest memory of the system, on large pages if it has them: fp32 ones.
at::Tensor make_plain(std::int64_t numel);

/// Walks all tensors once, side by side, as an update does: several streams together are faster than one by one.
/// Elements of `written` are multiplied in place. Tensors are fp32 and have equal sizes.
void pass_through(const std::vector<at::Tensor>& written, const std::vector<at::Tensor>& read);

}  // namespace lockstep
