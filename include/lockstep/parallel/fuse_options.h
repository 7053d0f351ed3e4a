#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <optional>

namespace lockstep {

/// How the step of an optimizer works.
enum class FuseMode {
  Off,            ///< gradients are averaged in backward, and every rank updates all weights
  SharedWeights,  ///< one copy of the weights for all ranks of the host; each updates a share
  ShardedState,   ///< each rank has all weights, updates a share and sends it to the others
};
/// "off", "shared weights", "sharded state"
const char* to_string(FuseMode mode);

struct FuseOptions {
  /// false: each rank keeps weights of its own, even where ranks could share them.
  bool share_weights = true;
  /// Float, BFloat16 or Half: dtype of fp32 weights' gradients between backward and step. 16 bits halve their memory.
  /// On one host, if weights are shared, the step adds the ranks' gradients in fp32; engines that send them round sums
  /// to 16 bits. Several backwards of one step are added in 16 bits.
  c10::ScalarType gradient_dtype = c10::ScalarType::Float;
  /// Float or BFloat16; not set: DistributedDataParallelOptions::compute_dtype. BFloat16 is for forwards under autocast
  /// in bf16: the step writes each new fp32 weight a second time, rounded to bf16, and layers read that copy in place
  /// of casting the weight in every forward. Weights, sums of gradients and the optimizer's state stay fp32, and
  /// results have the bits that they have without it. One copy serves all ranks that share weights. What other ranks
  /// send is rounded when it arrives. Weights get a copy in the step after a forward has asked for one.
  std::optional<c10::ScalarType> compute_dtype;
  /// What the ranks share out, as ZeRO counts: 1, the state of the optimizer; 2, the gradients too. With 2 a gradient
  /// belongs to the rank that updates its weight as soon as its bucket is reduced, and the bucket's memory is used
  /// again. What a program then sees in `grad` stands for that gradient: LibTorch refuses to write to it, and reading
  /// gives NaN. Each synchronised backward of a step sends gradients.
  int stage = 1;
  /// With stage 2: how many buckets of gradients each rank has memory for. A backward waits if all are being sent.
  std::size_t slots = 4;
};

/// Sets each mark to the largest of all ranks' marks. Collective.
void reduce_marks(Communicator& communicator, std::vector<std::uint8_t>& marks);

}  // namespace lockstep
