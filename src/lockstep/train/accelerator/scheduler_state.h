#pragma once

#include <torch/optim/schedulers/lr_scheduler.h>

#include <string>

namespace lockstep {

/// `scheduler.json` for any scheduler of LibTorch's kind: the state of a LambdaLR; for other schedulers, which compute
/// each rate from the previous one, the number of steps. The rates themselves belong to the optimizer.
std::string scheduler_state(const torch::optim::LRScheduler& scheduler);
/// @throws Error  naming `path`, if `text` belongs to another kind of scheduler
void load_scheduler_state(torch::optim::LRScheduler& scheduler, const std::string& text, const std::string& path);

}  // namespace lockstep
