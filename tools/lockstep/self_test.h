// What `lockstep test` runs on each rank.
#pragma once

namespace lockstep {

/// Checks, by an Accelerator of this process's job, that ranks are told apart, share work and data, draw the same
/// random numbers, and train as one process would. Rank 0 prints what is checked. Every rank of the job makes this
/// call.
/// @throws Error  naming what did not hold, and the rank
void run_self_test();

}  // namespace lockstep
