#pragma once

#include <string>

namespace lockstep {

/// How many times as fast as in fp32 this process multiplies matrices in bf16 on the CPU. Measured once, with the
/// threads that LibTorch has then: a few milliseconds, more on processors without instructions for bf16.
double bf16_speedup();

/// What to tell a user who computes in bf16 with this speedup; empty if bf16 is not slower than fp32. Pure, for tests.
std::string slow_bf16_warning(double speedup);

/// Warns once per process if bf16 is slower than fp32 on the CPU, unless this process is another rank than 0.
void warn_of_slow_bf16();

}  // namespace lockstep
