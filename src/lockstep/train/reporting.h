#pragma once

#include "lockstep/train/trainer.h"

namespace lockstep {

/// Adds to `options` the callbacks by which people see a training, as its arguments ask: a progress bar with the logs
/// above it (`disable_tqdm`; by default where standard error is a terminal), else the logs as lines; `metrics.jsonl` in
/// the output folder; event files for TensorBoard where `report_to` names it.
void add_reporting(TrainerOptions& options);

}  // namespace lockstep
