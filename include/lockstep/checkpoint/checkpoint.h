#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/checkpoint/checkpoint_content.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

struct Manifest;

/// The part of a checkpoint that is read when it is opened.
enum class Verify {
  Sizes,     ///< every file exists and has its recorded length
  Checksums  ///< and its recorded SHA-256
};

/// One published checkpoint, opened for reading. Copies share it; reading is thread-safe.
class Checkpoint {
 public:
  /// @param folder  `.../checkpoint-N`
  /// @throws Error  if it is damaged: names the file and what is wrong with it
  explicit Checkpoint(const std::string& folder, Verify verify = Verify::Checksums);

  const std::string& path() const { return folder_; }
  std::int64_t step() const;
  int world_size() const;  ///< ranks that wrote it
  /// Sizes and checksums of its files; not promised, since the type is internal.
  const Manifest& manifest() const { return *manifest_; }

  bool has_file(const std::string& name) const;
  /// The bytes of a file. @throws Error  if the manifest does not list it
  std::string file(const std::string& name) const;

  TrainerState trainer_state() const;
  /// `model.safetensors`, or `model_INDEX.safetensors`, mapped. @throws Error  if the checkpoint has no weights, or has
  /// them in the ranks' parts
  SafetensorsFile weights(std::size_t index = 0) const;
  /// The number of tensors among the weights, whole or in parts. @throws Error  if the checkpoint has no weights
  std::size_t number_of_weights(std::size_t index = 0) const;
  /// Copies the weights into `targets`, by name. @throws Error  if names or shapes differ; nothing is copied then
  /// It does not matter whether they were saved whole or in parts, and by how many ranks.
  void load_weights(const NamedTensors& targets, std::size_t index = 0) const;
  /// Copies elements [begin, end) of each tensor into the part's `tensor`, and reads no others. Parts may be cut in
  /// another way than they were when they were saved. @throws Error  if the checkpoint lacks a tensor, or has it in
  /// another shape or dtype; nothing is copied then
  void load_weight_parts(const TensorParts& targets, std::size_t index = 0) const;
  /// The whole state of all parameters, joined from the ranks' parts, and `groups` as they were saved.
  OptimizerContent optimizer(std::size_t index = 0) const;
  /// The same as views of the ranks' files: for `FlatOptimizer::load_named_state`, which takes from them what its rank
  /// needs, so that the whole state is never in memory.
  struct OptimizerParts {
    std::vector<NamedState> states;
    std::vector<std::map<std::string, double>> groups;
  };
  OptimizerParts optimizer_parts(std::size_t index = 0) const;
  /// The state that rank `rank` of the saved run wrote; empty if that run did not have this rank.
  NamedTensors generators(int rank) const;
  std::map<std::string, SamplerState> samplers(int rank) const;
  NamedTensors rank_tensors(int rank) const;

 private:
  NamedTensors tensors_of(const std::string& file) const;

  std::string folder_;
  std::shared_ptr<const Manifest> manifest_;
};

}  // namespace lockstep
