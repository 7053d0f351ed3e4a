#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "lockstep/models/bert_heads.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/loss.h"
#include "lockstep/models/pretrained_model_bodies.h"
#include "lockstep/models/token_batch.h"

namespace lockstep {
/// "cls": dense, activation, norm ("predictions.transform"), then scores of all words.
class BertMlmHead : public torch::nn::Module {
 public:
  explicit BertMlmHead(const BertConfig& c) : activation_(c.hidden_act) {
    const auto predictions = register_module("predictions", std::make_shared<Scope>());
    const auto transform = predictions->add("transform", std::make_shared<Scope>());
    dense_ = transform->add("dense", std::make_shared<Dense>(c.hidden_size, c.hidden_size));
    norm_ = transform->add("LayerNorm", std::make_shared<Norm>(c.hidden_size, c.layer_norm_eps));
    if (c.tie_word_embeddings) {
      bias_ = predictions->register_parameter("bias", at::empty({c.vocab_size}));
      return;
    }
    decoder_ = predictions->add("decoder", std::make_shared<Dense>(c.hidden_size, c.vocab_size));
    // Hugging Face's class has it too and does not use it: it is kept so that files are written as they were read.
    predictions->register_buffer("bias", at::zeros({c.vocab_size}));
  }

  /// @param hidden  [rows, hidden_size]
  /// @param words  the table of word embeddings, used if there is no decoder with a weight of its own
  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& words) const {
    const at::Tensor transformed = norm_->forward(activate(activation_, dense_->forward(hidden)));
    if (decoder_) return decoder_->forward(transformed);
    return dense(transformed, words, bias_, WeightLayout::OutIn);
  }

 private:
  Activation activation_;
  std::shared_ptr<Dense> dense_;
  std::shared_ptr<Norm> norm_;
  std::shared_ptr<Dense> decoder_;  // null if the words' table scores them
  at::Tensor bias_;                 // with the words' table only
};

BertForMaskedLMImpl::BertForMaskedLMImpl(const BertConfig& config, InitialWeights weights)
    : PretrainedTextModel(config),
      bert_(register_module("bert", std::make_shared<BertModelImpl>(config, false, InitialWeights::Unset))),
      head_(register_module("cls", std::make_shared<BertMlmHead>(config))) {
  fill(weights);
}

at::Tensor BertForMaskedLMImpl::forward(const TokenInputs& inputs) {
  const at::Tensor hidden = bert_->forward(inputs).last_hidden_state;
  const at::Tensor scores = head_->forward(hidden.flatten(0, 1), bert_->word_embeddings().weight());
  return scores.view({hidden.size(0), hidden.size(1), -1});
}

Batch BertForMaskedLMImpl::random_batch(const RandomBatchOptions& options) const {
  return random_masked_texts(options, config().vocab_size, config().max_position_embeddings,
                             config().pad_token_id.value_or(0), kArchitecture);
}

LossSum BertForMaskedLMImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return cross_entropy_sum(output.flatten(0, -2), field(batch, "labels").flatten(), kArchitecture);
}

template class PretrainedModule<BertForMaskedLMImpl, BertConfig, Model>;
template class PretrainedTextModel<BertForMaskedLMImpl, BertConfig>;

}  // namespace lockstep
