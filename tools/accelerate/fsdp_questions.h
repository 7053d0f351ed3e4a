#pragma once

#include "tools/accelerate/accelerate_config.h"
#include "tools/accelerate/questions.h"

namespace lockstep {

/// Asks Accelerate's questions on FSDP, in its order, and makes the configuration one for FSDP.
void ask_fsdp(Questions& ask, AccelerateConfig& config);

}  // namespace lockstep
