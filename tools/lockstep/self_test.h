// The checks that `lockstep test` runs on each rank.
#pragma once

namespace lockstep {

/// Checks, with an Accelerator of this process's job, that ranks are distinct, share work and data, draw equal random
/// numbers, and train as one process would. Rank 0 prints what is checked. Every rank of the job makes this call.
/// @throws Error  naming the check that failed, and the rank
void run_self_test();

}  // namespace lockstep
