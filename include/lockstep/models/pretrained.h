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
#include "lockstep/detail/models/initialization.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// How `from_pretrained` builds a model.
struct LoadOptions {
  std::vector<std::string> labels;  ///< names of the classifier's labels; empty: those in config.json
  std::int64_t num_labels = 0;      ///< number of labels without names; 0: as in config.json
  /// What a classifier learns: "regression", "single_label_classification" or "multi_label_classification"; empty: as
  /// in config.json.
  std::string problem_type;
  /// Number of entries of the model's tokenizer (`Tokenizer::vocab_size()`), compared with the model's before anything
  /// is loaded; 0: unknown. A tokenizer with more entries than the model embeds is an Error.
  std::int64_t tokenizer_size = 0;
  bool ignore_mismatched_sizes = false;  ///< parameters with another shape are newly initialised; else an Error
  bool gradient_checkpointing = false;   ///< recompute activations in backward
};

/// How a file's weights matched a model's parameters, as Hugging Face's `from_pretrained` reports it.
struct LoadReport {
  struct Mismatch {
    std::string name;
    std::vector<std::int64_t> file_shape;
    std::vector<std::int64_t> model_shape;
  };
  std::string path;
  std::string architecture;
  std::vector<std::string> missing;     ///< parameters that the file lacks; they were newly initialised
  std::vector<std::string> unexpected;  ///< tensors in the file that the model lacks
  std::vector<Mismatch> mismatched;     ///< parameters with another shape in the file; they were newly initialised
  std::string vocabulary;               ///< a warning that the tokenizer is probably another model's; else empty
  std::string untied;  ///< warnings of tensors that config.json ties and that have different values; else empty

  /// True if any parameter was newly initialised: the model should be trained before it is used.
  bool has_new_weights() const { return !missing.empty() || !mismatched.empty(); }
  /// Hugging Face's warnings; empty if there is nothing to report.
  std::string text() const;
};

/// A model and how it was loaded.
template <typename Module>
struct Loaded {
  std::shared_ptr<Module> model;
  LoadReport report;
};

/// How the names in a file map to the parameters of one class of models.
struct WeightRules {
  std::string architecture;     ///< "BertForSequenceClassification"
  std::string base_prefix;      ///< "bert": name of the base model inside a model with a head
  std::int64_t vocab_size = 0;  ///< tokens that the model embeds; 0: it has no embedding
  /// Further names that files use for a parameter of this model: {"lm_head.weight", "transformer.wte.weight"}. They are
  /// looked up if the file lacks the parameter's own name. If it has both with different values, `from_pretrained`
  /// makes a model whose weights are not tied, and takes a bias from the further name; load_weights reports such a
  /// weight.
  std::vector<std::pair<std::string, std::string>> tied;
  /// True for tensors in the file that are not weights, or that this class leaves out on purpose.
  std::function<bool(const std::string&)> is_ignored;
  Initializer initialize;  ///< fills parameters that the file lacks
};

/// Reads the weights in `path` into `module`, converted to the dtype and device of its parameters. The base model's
/// prefix is added or removed as the file needs it; "gamma" and "beta" are read as "weight" and "bias".
/// @param path  a folder or a file, see WeightFiles
/// @throws Error  if the weights cannot be read, or if shapes differ and `ignore_mismatched_sizes` is false; it lists
/// the parameters that differ
LoadReport load_weights(torch::nn::Module& module, const WeightRules& rules, const std::string& path,
                        const LoadOptions& options = {});

/// Throws the Error for a model that could not be built from the configuration in `folder`, for example because its
/// sizes need too much memory.
[[noreturn]] void throw_unbuildable(const std::string& folder, const std::exception& cause);

/// Returns what `make` returns. @throws Error  naming config.json if LibTorch throws, e.g. for lack of memory
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

/// Compares the tokenizer that `options` describe with a model that embeds `vocab_size` tokens.
/// @param folder  the model's folder, for errors
/// @return  text for `LoadReport::vocabulary`: a warning if the tokenizer has far fewer entries than the model, because
/// it is then hardly the one that the model was trained with. (Tables rounded up to a multiple of 128 are common.)
/// @throws Error  if the tokenizer has ids that the model does not embed
std::string check_tokenizer_size(std::int64_t vocab_size, const std::string& folder, const LoadOptions& options);

/// Parameters and buffers under their plain names. A parameter with several names is listed once.
NamedTensors state_of(const torch::nn::Module& module);

/// Writes `config.json` and the weights into `folder`, so that Hugging Face's `from_pretrained` reads them.
/// @throws Error  if a file cannot be written
void save_pretrained(const torch::nn::Module& module, const std::string& config_json, const std::string& folder,
                     std::uint64_t max_shard_bytes = kDefaultMaxShardBytes);

}  // namespace lockstep
