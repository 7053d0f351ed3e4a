#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <vector>

#include "lockstep/detail/models/pretrained_model.h"
#include "lockstep/detail/models/rotary_config.h"
#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/models/key_value_cache.h"
#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

class Dense;
class Embedding;
class RmsNorm;
class RotaryLayer;

/// The decoder of Llama, Qwen2, Qwen3, Mistral or SmolLM3, with the parameter names of Hugging Face's class.
///
/// As in Hugging Face's model, positions count from 0 whether tokens are padding or not. To count only the tokens of
/// left-padded texts, pass `position_ids_of_mask(attention_mask)` as position_ids. It takes no notice of
/// token_type_ids.
template <typename Family>
class RotaryModelImpl : public PretrainedModule<RotaryModelImpl<Family>, RotaryConfig<Family>, torch::nn::Module> {
 public:
  static constexpr const char* kArchitecture = Family::kModel;

  /// @throws Error  if the configuration is not possible
  explicit RotaryModelImpl(const RotaryConfig<Family>& config, InitialWeights weights = InitialWeights::Random);
  ~RotaryModelImpl() override;

  /// @return  [size, length, hidden_size]
  /// @throws Error  if ids, lengths or shapes do not fit the configuration; the message names field, row and column
  at::Tensor forward(const TokenInputs& inputs);
  /// The same for tokens that follow those of `cache`, into which their keys and values go. There is no padding.
  /// @param input_ids  [size, length]
  at::Tensor forward_cached(const at::Tensor& input_ids, KeyValueCache& cache);

  const Embedding& word_embeddings() const { return *words_; }

 private:
  at::Tensor run_layers(const TokenInputs& inputs, KeyValueCache* cache);

  std::shared_ptr<Embedding> words_;
  std::vector<std::shared_ptr<RotaryLayer>> layers_;
  std::shared_ptr<RmsNorm> norm_;
};

/// The decoder that predicts the next token. The head's weight is the word embedding if `tie_word_embeddings`, so the
/// module and its files hold it once then.
/// Batch: as GPT2LMHeadModel's.
template <typename Family>
class RotaryForCausalLMImpl : public PretrainedTextModel<RotaryForCausalLMImpl<Family>, RotaryConfig<Family>>,
                              public CachedDecoder {
 public:
  static constexpr const char* kArchitecture = Family::kCausalLM;
  static constexpr bool kScoresEachToken = true;

  explicit RotaryForCausalLMImpl(const RotaryConfig<Family>& config, InitialWeights weights = InitialWeights::Random);

  /// @return  scores [size, length, vocab_size]
  /// @throws Error  as RotaryModel
  at::Tensor forward(const TokenInputs& inputs);
  at::Tensor next_scores(const at::Tensor& input_ids, KeyValueCache& cache) override;

  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;
  LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const override;

 private:
  at::Tensor scores(const at::Tensor& rows) const;

  std::shared_ptr<RotaryModelImpl<Family>> model_;
  std::shared_ptr<Dense> head_;  // null if the words' table scores them
};

using LlamaModelImpl = RotaryModelImpl<Llama>;
using LlamaForCausalLMImpl = RotaryForCausalLMImpl<Llama>;
using Qwen2ModelImpl = RotaryModelImpl<Qwen2>;
using Qwen2ForCausalLMImpl = RotaryForCausalLMImpl<Qwen2>;
using Qwen3ModelImpl = RotaryModelImpl<Qwen3>;
using Qwen3ForCausalLMImpl = RotaryForCausalLMImpl<Qwen3>;
using MistralModelImpl = RotaryModelImpl<Mistral>;
using MistralForCausalLMImpl = RotaryForCausalLMImpl<Mistral>;
using SmolLM3ModelImpl = RotaryModelImpl<SmolLM3>;
using SmolLM3ForCausalLMImpl = RotaryForCausalLMImpl<SmolLM3>;

TORCH_MODULE(LlamaModel);
TORCH_MODULE(LlamaForCausalLM);
TORCH_MODULE(Qwen2Model);
TORCH_MODULE(Qwen2ForCausalLM);
TORCH_MODULE(Qwen3Model);
TORCH_MODULE(Qwen3ForCausalLM);
TORCH_MODULE(MistralModel);
TORCH_MODULE(MistralForCausalLM);
TORCH_MODULE(SmolLM3Model);
TORCH_MODULE(SmolLM3ForCausalLM);

}  // namespace lockstep
