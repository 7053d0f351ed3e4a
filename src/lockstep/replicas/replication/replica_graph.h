#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <vector>

#include "lockstep/replicas/replication/replica_state.h"

namespace lockstep {

/// The result of all replicas' forward that backward needs: a separate graph in each replica.
struct ReplicaGraph {
  std::shared_ptr<ReplicaSet::State> state;
  std::vector<std::vector<torch::autograd::Edge>> edges;  ///< [replica][input]: where the caller's graph continues
  std::vector<std::vector<at::Tensor>> leaves;   ///< [replica][input]: where the replica's graph ends; undefined if
                                                 ///< the input needs no gradient
  std::vector<std::vector<at::Tensor>> outputs;  ///< [replica][output]: where the replica's graph begins
  /// A replica's backward has a step for the thread of the first replica's device, in which this graph's step waits for
  /// the replicas. So the replicas' backwards run in that thread, one after the other.
  bool in_turn = false;
  bool is_shared = false;  ///< another step of the caller's graph also goes through the replicas' graphs
};

/// Turns the replicas' graphs into one step of the caller's graph, between the module's parameters and the inputs on
/// one side and the outputs on the other. @return  the outputs as the caller sees them
std::vector<std::vector<at::Tensor>> join_replica_graphs(ReplicaGraph graph);

}  // namespace lockstep
