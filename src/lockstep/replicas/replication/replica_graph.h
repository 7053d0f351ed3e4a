#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <vector>

#include "lockstep/replicas/replication/replica_state.h"

namespace lockstep {

/// What the forward of all replicas left for the backward: a graph of its own in each.
struct ReplicaGraph {
  std::shared_ptr<ReplicaSet::State> state;
  std::vector<std::vector<torch::autograd::Edge>> edges;  ///< [replica][input]: where the caller's graph goes on
  std::vector<std::vector<at::Tensor>> leaves;   ///< [replica][input]: where the replica's graph ends; undefined where
                                                 ///< the input needs no gradient
  std::vector<std::vector<at::Tensor>> outputs;  ///< [replica][output]: where the replica's graph begins
  bool is_shared = false;  ///< another step of the caller's graph goes through the replicas' graphs, too
};

/// Makes one step of the caller's graph of them, with the module's parameters and the inputs before it, and the outputs
/// behind it. @return  the outputs as the caller sees them
std::vector<std::vector<at::Tensor>> join_replica_graphs(ReplicaGraph graph);

}  // namespace lockstep
