#pragma once

namespace fake_gpu {

/// Loads the library of kernels that lies beside this one, if LibTorch's CUDA is in this process. At the first context,
/// so that a program without CUDA, such as the launcher, loads nothing.
void load_kernels();

}  // namespace fake_gpu
