// The memory that training uses, computed from a model's sizes and from activations measured in a dry run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// The model to train, and how.
struct MemoryQuestion {
  std::string model;                 ///< a shipped model, one of gpt3_sizes(), or a folder with config.json
  std::int64_t batch = 8;            ///< samples of each rank
  std::int64_t sequence_length = 0;  ///< tokens of each text; 0: the model's default
  bool bf16 = false;                 ///< autocast, as with `--bf16`
  bool gradient_checkpointing = false;
  bool fit = false;  ///< for a GPT-3: estimate activations by the fit even if a dry run is possible
};

/// The sizes of one rank's data, in bytes, before anything is divided among ranks.
struct ModelMemory {
  std::int64_t parameters = 0;  ///< number, not bytes
  std::int64_t weights = 0;
  std::int64_t largest_layer = 0;             ///< weights of the largest block
  std::vector<std::int64_t> parameter_bytes;  ///< of each parameter, in the order of registration
  /// Of each parameter, the unit of stage 3 that it is in if no option names units: a numbered layer. 0: in none.
  std::vector<std::size_t> units;
  /// By parameter, whether a forward in bf16 reads a copy, which fused steps publish. Empty: none is read so.
  std::vector<bool> has_copy;
  std::int64_t activations = 0;         ///< what forward keeps for backward, with autocast's casts of weights
  std::int64_t without_casts = 0;       ///< the same if there are copies, so that none is cast
  bool activations_are_fitted = false;  ///< from dry runs of smaller models of this kind, because this one is too large
};

/// Bytes that one rank holds, or the ranks of one host together, when a forward has ended.
struct MemoryParts {
  std::int64_t weights = 0;    ///< with published bf16 copies
  std::int64_t gradients = 0;  ///< also sums of them that an owner keeps
  std::int64_t optimizer = 0;
  std::int64_t buckets = 0;  ///< that are used again and again, and weights that are gathered
  std::int64_t activations = 0;
  std::int64_t total() const { return weights + gradients + optimizer + buckets + activations; }
};

/// A GPT-3 of the paper's table 2.1 (Brown et al., 2020, arXiv:2005.14165), "gpt3-small" to "gpt3-175b".
struct Gpt3Size {
  std::string name;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
};
const std::vector<Gpt3Size>& gpt3_sizes();

/// Makes the model, runs it forward once, and counts. A GPT-3 larger than 1 GiB is not made: its activations are
/// computed from dry runs of small ones, whose memory is linear in layers, heads and width.
/// @throws Error  if the model does not exist, or `sequence_length` is more than it takes
ModelMemory measure_model_memory(const MemoryQuestion& question);

/// @param optimizer_bytes  for each parameter: 8 for Adam, 4 for SGD with momentum, 0 for SGD
/// @param stage  what is divided among `world_size` ranks: 0 nothing, 1 the optimizer's state, 2 gradients too, 3
/// weights too (Rajbhandari et al., 2020, arXiv:1910.02054)
MemoryParts memory_of_rank(const ModelMemory& model, std::int64_t optimizer_bytes, int stage, int world_size);

/// What the ranks of one host hold together with Lockstep, whose fused steps (stages from 1 on) keep one copy of the
/// weights on a host (stage 3: of those that are gathered, one on each rank). With engines "shm" and "hierarchical".
MemoryParts memory_of_host(const ModelMemory& model, std::int64_t optimizer_bytes, int stage, int hosts,
                           int ranks_per_host);

}  // namespace lockstep
