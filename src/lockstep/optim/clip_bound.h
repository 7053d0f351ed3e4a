#pragma once

namespace lockstep {

/// Checks the largest norm, or element, that gradients may have after clipping.
/// @param name  of the argument. @param call  which has it
/// @throws Error  if `bound` is negative or NaN: clipping would turn the gradients around, or make them NaN
void check_clip_bound(double bound, const char* name, const char* call);

}  // namespace lockstep
