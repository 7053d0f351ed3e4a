#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// What a model of the registry can be asked to differ in. Zero and empty mean the model's own default; what a model
/// does not have is an Error, not ignored.
struct ModelOptions {
  std::int64_t num_labels = 0;               ///< classes of the head; gpt2 is a language model and has none
  std::int64_t features = 0;                 ///< mlp: columns of the input
  std::vector<std::int64_t> hidden;          ///< mlp: widths of the hidden layers
  std::int64_t channels = 0;                 ///< convnet: of the images
  std::int64_t side = 0;                     ///< convnet: height and width of the images
  std::int64_t vocab_size = 0;               ///< bert, gpt2: tokens that the tokenizer knows
  std::int64_t max_positions = 0;            ///< bert, gpt2: tokens of the longest text
  std::optional<std::int64_t> pad_token_id;  ///< bert, gpt2: the tokenizer's padding
  std::optional<double> dropout;             ///< bert, gpt2: every dropout rate
  bool gradient_checkpointing = false;       ///< bert, gpt2: recompute activations in backward
};

struct ModelInfo {
  std::string name;
  std::string summary;  ///< one line: layers and parameters
};

/// The models that can be made by name, with random weights, in the order in which help texts list them.
const std::vector<ModelInfo>& registered_models();

/// A new model with random weights, drawn from LibTorch's default generator. "mlp-kdd" is another name of "mlp".
/// @throws Error  for an unknown name (it lists the known ones) or an option that this model does not have
std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options = {});

/// What a pretrained text model is to do.
enum class TextTask { SequenceClassification, MaskedLanguageModel, CausalLanguageModel };

/// A model of `folder`, which holds config.json and weights as Hugging Face's `save_pretrained` writes them, with the
/// head for `task`: BERT for the first two, GPT-2 for the first and the last.
/// @throws Error  if the folder's "model_type" is another, has no such head, or something does not fit
Loaded<Model> load_pretrained_model(const std::string& folder, TextTask task, const LoadOptions& options = {});

/// The model of text that a program's `--model` names: that of a folder, as `load_pretrained_model` reads it, or a new
/// one with random weights: bert-tiny, bert-mini, bert-small, bert-base, gpt2 and gpt2-tiny, as far as they do `task`.
/// @param options  a new model embeds `tokenizer_size` tokens, where it is given, and has these labels
/// @param pad_token_id  the tokenizer's, for a new model
/// @throws Error  if there is neither folder nor model of this name (it lists those that do `task`); as
///     load_pretrained_model
Loaded<Model> load_or_make_model(const std::string& folder_or_name, TextTask task, const LoadOptions& options,
                                 std::optional<std::int64_t> pad_token_id);

/// Tokens of the longest text that `model` takes; 0 for a model of something else.
std::int64_t max_positions_of(const Model& model);
/// The names of a text classifier's labels; none of other models.
std::vector<std::string> labels_of(const Model& model);
/// The text of a text model's `config.json`; empty for models that have none (MLP, ConvNet).
std::string config_json_of(const Model& model);

/// Writes a model of text into `folder`, as its class's `save_pretrained`; of others (MLP, ConvNet) the weights alone.
void save_model(const Model& model, const std::string& folder);

}  // namespace lockstep
