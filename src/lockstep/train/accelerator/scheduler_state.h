#pragma once

#include <torch/optim/schedulers/lr_scheduler.h>

#include <string>

namespace lockstep {

/// `scheduler.json` of any scheduler of LibTorch's kind: of LambdaLR its state, of others, which compute each rate from
/// the one before, the number of steps. The rates themselves are the optimizer's.
std::string scheduler_state(const torch::optim::LRScheduler& scheduler);
/// @throws Error  naming `path`, if `text` is of another kind of scheduler
void load_scheduler_state(torch::optim::LRScheduler& scheduler, const std::string& text, const std::string& path);

}  // namespace lockstep
