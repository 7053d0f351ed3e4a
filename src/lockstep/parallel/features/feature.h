#pragma once

namespace lockstep {

/// What a training may ask for that changes how gradients are averaged or weights are updated.
enum class Feature {
  VirtualShards,
  StaticGraph,
  UnsentBuffers,
  IgnoredTensors,
  SparseGradients,
  Devices,
  FollowBackward,
  Hook,
  DivergingHook,
  Join,
  Fuse,
  Stage2,
  Stage3,
  HybridShard,
  Units,
  Gradients16,
  TorchScript,
  Accumulation,
  Replicas,
  SyncBatchNorm,
  LossOverRanks,
  PreparedLoader,
  Survival,
  OwnWeights,
  OwnGroup,
  Trace,
  Count,
};

/// What users call it, e.g. "virtual shards", "broadcast_buffers = false".
const char* name_of(Feature feature);

}  // namespace lockstep
