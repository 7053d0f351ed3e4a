#pragma once

#include "lockstep/launch/accelerate/accelerate_config.h"
#include "lockstep/launch/accelerate/questions.h"

namespace lockstep {

/// Asks Accelerate's questions on FSDP, in its order, and makes the configuration one for FSDP.
void ask_fsdp(Questions& ask, AccelerateConfig& config);

}  // namespace lockstep
