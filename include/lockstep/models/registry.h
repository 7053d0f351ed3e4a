#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// Options for a model made by name. Zero and empty mean the model's own default. An option that a model does not have
/// is an Error; it is not ignored.
struct ModelOptions {
  std::int64_t num_labels = 0;               ///< classes of the head; gpt2, a language model, has no such option
  std::int64_t features = 0;                 ///< mlp: columns of the input
  std::vector<std::int64_t> hidden;          ///< mlp: widths of the hidden layers
  std::int64_t channels = 0;                 ///< convnet: channels of the images
  std::int64_t side = 0;                     ///< convnet: height and width of the images
  std::int64_t vocab_size = 0;               ///< bert, gpt2: size of the tokenizer's vocabulary
  std::int64_t max_positions = 0;            ///< bert, gpt2: tokens in the longest text
  std::optional<std::int64_t> pad_token_id;  ///< bert, gpt2: the tokenizer's padding id
  std::optional<double> dropout;             ///< bert, gpt2: every dropout rate
  bool gradient_checkpointing = false;       ///< bert, gpt2: recompute activations in backward
};

struct ModelInfo {
  std::string name;
  std::string summary;  ///< one line: layers and parameters
};

/// The models that can be made by name with random weights, in the order in which help texts list them.
const std::vector<ModelInfo>& registered_models();

/// A new model with random weights, drawn from LibTorch's default generator. "mlp-kdd" is another name of "mlp".
/// @throws Error  for an unknown name (it lists the known ones) or an option that this model does not have
std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options = {});

/// The task of a pretrained text model.
enum class TextTask { SequenceClassification, MaskedLanguageModel, CausalLanguageModel };

/// Loads the model in `folder`, which holds config.json and weights as Hugging Face's `save_pretrained` writes them,
/// with the head for `task`. BERT, RoBERTa, DistilBERT, ELECTRA and MPNet do the first two tasks, GPT-2 the first and
/// the last, Llama, Qwen2, Qwen3, Mistral and SmolLM3 the last.
/// @throws Error  if the folder's "model_type" is unknown or has no such head, or if something does not fit
Loaded<Model> load_pretrained_model(const std::string& folder, TextTask task, const LoadOptions& options = {});

/// A new model with random weights and the configuration of `folder`, whose weights are not read: a GPT-2 that predicts
/// the next token, or a classifier.
/// @throws Error  as load_pretrained_model
std::shared_ptr<Model> make_model_of_folder(const std::string& folder, bool gradient_checkpointing = false);

/// The tensors that the config.json in `folder` ties, and that the file there has twice with different values: a line
/// for each, as a LoadReport has it if the model is loaded to score words. Empty if there is nothing, or Lockstep has
/// no model of that type that scores words. Reads only these tensors.
/// @throws Error  if the configuration or the weights cannot be read
std::string tied_tensors_that_differ(const std::string& folder);

/// Looks only at the "model_type" of a config.json, before the weights are there.
/// @throws Error  if load_pretrained_model reads no model of that type
void require_known_model(const std::string& config_path);

/// The text model that a program's `--model` names. A folder is read as by `load_pretrained_model`. A name (bert-tiny,
/// bert-mini, bert-small, bert-base, gpt2, gpt2-tiny) makes a new model with random weights, if that kind of model does
/// `task`.
/// @param options  a new model embeds `tokenizer_size` tokens if that is given, and has these labels
/// @param pad_token_id  the tokenizer's padding id, for a new model
/// @throws Error  if neither a folder nor a model with this name exists (it lists the names that do `task`); as
/// load_pretrained_model
Loaded<Model> load_or_make_model(const std::string& folder_or_name, TextTask task, const LoadOptions& options,
                                 std::optional<std::int64_t> pad_token_id);

/// Whether the model in `folder` predicts the next token, by its config.json; all others of these models predict masked
/// words.
bool predicts_next_token(const std::string& folder);

/// Tokens in the longest text that `model` accepts; 0 for a model without text.
std::int64_t max_positions_of(const Model& model);
/// The names of a text classifier's labels; empty for other models.
std::vector<std::string> labels_of(const Model& model);
/// What a classifier's outputs say to a reader, as Hugging Face's pipelines show them: probabilities of the labels that
/// exclude each other, a probability of each label that does not (`problem_type` multi_label_classification), or the
/// values of a regression.
/// @param outputs  [..., labels], as the model's forward returns them
at::Tensor label_scores_of(const Model& model, const at::Tensor& outputs);
/// The text of a text model's `config.json`; empty for models without that file (MLP, ConvNet).
std::string config_json_of(const Model& model);

/// Writes a text model into `folder` as its class's `save_pretrained`; for other models (MLP, ConvNet) only the
/// weights.
void save_model(const Model& model, const std::string& folder);

}  // namespace lockstep
