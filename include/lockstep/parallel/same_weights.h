#pragma once

#include "lockstep/comm/communicator.h"

namespace torch {
namespace nn {
class Module;
}
}  // namespace torch

namespace lockstep {

/// Compares the parameters and buffers of a module over the ranks, bit for bit, by digests of 8 bytes. Each backward of
/// DistributedDataParallel compares what the step before it has left; what the last step of a program leaves, nobody
/// does without this call. Not for a module whose weights are in shards. Collective.
/// @throws Error  on every rank, with the first tensor that differs and a rank where it does
void require_same_weights(Communicator& group, torch::nn::Module& module);

}  // namespace lockstep
