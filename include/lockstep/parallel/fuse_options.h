#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <optional>

#include "lockstep/detail/parallel/sharding_options.h"

namespace lockstep {

/// How the step of an optimizer works.
enum class FuseMode {
  Off,            ///< gradients are averaged in backward, and every rank updates all weights
  SharedWeights,  ///< one copy of the weights for all ranks of the host; each updates a share
  ShardedState,   ///< each rank has all weights, updates a share and sends it to the others (stage 3: and keeps it)
};
/// "off", "shared weights", "sharded state"
const char* to_string(FuseMode mode);

/// How `fuse` lets ranks share a step. `sharding_strategy` is NoShard unless it is set.
struct FuseOptions : ShardingOptions {
  FuseOptions() { sharding_strategy = ShardingStrategy::NoShard; }

  /// false: each rank keeps weights of its own, even where ranks could share them.
  bool share_weights = true;
  /// Float, BFloat16 or Half: dtype of fp32 weights' gradients between backward and step. 16 bits halve their memory.
  /// On one host, if weights are shared, the step adds the ranks' gradients in fp32; engines that send them round sums
  /// to 16 bits. Several backwards of one step are added in 16 bits.
  c10::ScalarType gradient_dtype = c10::ScalarType::Float;
  /// Float or BFloat16; not set: DistributedDataParallelOptions::compute_dtype. BFloat16 is for forwards under autocast
  /// in bf16: the step writes each new fp32 weight a second time, rounded to bf16, and layers read that copy in place
  /// of casting the weight in every forward. Weights, sums of gradients and the optimizer's state stay fp32, and
  /// results have the bits that they have without it. One copy serves all ranks that share weights. Weights travel in
  /// fp32, with stage 3 in bf16. Weights get a copy in the step after a forward has asked for one.
  std::optional<c10::ScalarType> compute_dtype;
  /// ZeRO's number for `sharding_strategy`, in place of it: 1, the state of the optimizer; 2, the gradients too. With 2
  /// a gradient belongs to the rank that updates its weight as soon as its bucket is reduced, and the bucket's memory
  /// is used again. What a program then sees in `grad` stands for that gradient: LibTorch refuses to write to it, and
  /// reading gives NaN. Each synchronised backward of a step sends gradients.
  ///
  /// 3, the weights too: each rank keeps its share of them. A layer is gathered when forward or backward first reads
  /// one of its weights, and freed when two other layers have followed. Elsewhere a read of a weight is an Error: see
  /// FusedStep::unshard. All ranks must run the same layers in the same order, evaluations included. The ranks of a
  /// host hold a layer together if weights may be shared, with the engine hierarchical and equally many ranks on each
  /// host. Where all ranks share memory (engines shm and thread, one rank) there is one copy of the weights anyway, and
  /// 3 is the same as 2. Not with virtual shards, TorchScript or `join`.
  int stage = 1;
  /// With stage 2, in place of `sharding_strategy` HybridShard, whose weights are cut inside a host and have a replica
  /// on each. One copy of the weights for all ranks of a host is that, so this changes nothing if there is one. If each
  /// rank would have all weights of its own (engines gloo, tcp and mpi with several ranks on a host, hosts with unequal
  /// numbers of ranks, `share_weights` false), `fuse` is an Error. Units are looked up in the module, and nothing is
  /// gathered.
  bool hybrid_shard = false;
  /// With stage 2 and 3: how many buckets of gradients each rank has memory for. A backward waits if all are being
  /// sent; with stage 3 it does not wait, and gradients stay where they are until a slot is free.
  std::size_t slots = 4;
};

}  // namespace lockstep
