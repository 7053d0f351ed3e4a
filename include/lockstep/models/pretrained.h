#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/models/initialization.h"
#include "lockstep/safetensors/safetensors.h"
#include "lockstep/safetensors/weight_files.h"

namespace lockstep {

/// How `from_pretrained` builds a model.
struct LoadOptions {
  std::vector<std::string> labels;  ///< names of the classifier's labels; empty: as config.json has them
  std::int64_t num_labels = 0;      ///< the same without names; 0: as config.json has them
  /// Entries of the tokenizer that goes with the model (`Tokenizer::vocab_size()`), to be held against the model's
  /// before anything is loaded; 0: not known. More than the model embeds are an Error.
  std::int64_t tokenizer_size = 0;
  bool ignore_mismatched_sizes = false;  ///< parameters of another shape are newly initialised instead of an Error
  bool gradient_checkpointing = false;   ///< recompute activations in backward
};

/// What became of a file's weights and of a model's parameters, as Hugging Face's `from_pretrained` tells it.
struct LoadReport {
  struct Mismatch {
    std::string name;
    std::vector<std::int64_t> file_shape;
    std::vector<std::int64_t> model_shape;
  };
  std::string path;
  std::string architecture;
  std::vector<std::string> missing;     ///< parameters that the file does not have: newly initialised
  std::vector<std::string> unexpected;  ///< tensors of the file that the model does not have
  std::vector<Mismatch> mismatched;     ///< of another shape: newly initialised
  std::string vocabulary;               ///< that the tokenizer is probably another model's; empty where it fits

  /// True where any parameter is newly initialised: the model should be trained before it is used.
  bool has_new_weights() const { return !missing.empty() || !mismatched.empty(); }
  /// Hugging Face's warnings, or nothing where there is nothing to tell.
  std::string text() const;
};

/// A model and how it was loaded.
template <typename Module>
struct Loaded {
  std::shared_ptr<Module> model;
  LoadReport report;
};

/// How a file's names fit a class of models.
struct WeightRules {
  std::string architecture;     ///< "BertForSequenceClassification"
  std::string base_prefix;      ///< "bert": the base model's name inside of a model with a head
  std::int64_t vocab_size = 0;  ///< tokens that the model embeds; 0: it has no embedding
  /// Names that older or other files have for a parameter of this model: {"lm_head.weight", "transformer.wte.weight"}.
  /// Read where the file does not have the parameter under its own name.
  std::vector<std::pair<std::string, std::string>> tied;
  /// Whether a tensor of the file is no weight at all, or one that this class leaves out on purpose.
  std::function<bool(const std::string&)> is_ignored;
  Initializer initialize;  ///< of what the file does not have
};

/// Reads the weights of `path` into `module`, converted to the dtype and device of its parameters. The base model's
/// prefix is added or removed as the file needs it; "gamma" and "beta" are read as "weight" and "bias".
/// @param path  a folder or a file, see WeightFiles
/// @throws Error  if the weights cannot be read, or, without `ignore_mismatched_sizes`, have other shapes: it lists
/// them
LoadReport load_weights(torch::nn::Module& module, const WeightRules& rules, const std::string& path,
                        const LoadOptions& options = {});

/// Throws the Error for a model that could not be built from the configuration in `folder`: no memory for its sizes.
[[noreturn]] void throw_unbuildable(const std::string& folder, const std::exception& cause);

/// What `make` returns. @throws Error  naming config.json where LibTorch throws, e.g. because memory does not suffice
template <typename Make>
auto build_model(const std::string& folder, const Make& make) {
  try {
    return make();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& cause) {
    throw_unbuildable(folder, cause);
  }
}

/// Holds the tokenizer that `options` tell of against a model that embeds `vocab_size` tokens.
/// @param folder  the model's, for errors
/// @return  what `LoadReport::vocabulary` is to say: a tokenizer with far fewer entries than the model is usable, but
///     hardly the one that it was trained with. (Tables rounded up to a multiple of 128 are common.)
/// @throws Error  if the tokenizer has ids that the model does not embed
std::string check_tokenizer_size(std::int64_t vocab_size, const std::string& folder, const LoadOptions& options);

/// Parameters and buffers under their plain names; parameters that are one tensor under several names once.
NamedTensors state_of(const torch::nn::Module& module);

/// Writes `config.json` and the weights into `folder`, so that Hugging Face's `from_pretrained` reads them.
/// @throws Error  if a file cannot be written
void save_pretrained(const torch::nn::Module& module, const std::string& config_json, const std::string& folder,
                     std::uint64_t max_shard_bytes = kDefaultMaxShardBytes);

}  // namespace lockstep
