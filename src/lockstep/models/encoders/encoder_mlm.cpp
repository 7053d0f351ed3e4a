#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "lockstep/models/encoders/encoder_bodies.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/loss.h"

namespace lockstep {

template <typename Family>
EncoderForMaskedLMImpl<Family>::EncoderForMaskedLMImpl(const EncoderConfig<Family>& config, InitialWeights weights)
    : PretrainedTextModel<EncoderForMaskedLMImpl, EncoderConfig<Family>>(config) {
  const EncoderLayout& layout = layout_of<Family>();
  const std::int64_t width = embedding_width(config);
  encoder_ = this->register_module(layout.name,
                                   std::make_shared<EncoderModelImpl<Family>>(config, false, InitialWeights::Unset));
  dense_ = add_at(*this, layout.words.dense, std::make_shared<Dense>(config.hidden_size, width));
  norm_ = add_at(*this, layout.words.norm, std::make_shared<Norm>(width, config.layer_norm_eps));
  if (config.tie_word_embeddings) {
    std::string name;
    bias_ = scope_of(*this, layout.words.bias, name).register_parameter(name, at::empty({config.vocab_size}));
  } else {
    decoder_ = add_at(*this, layout.words.decoder, std::make_shared<Dense>(width, config.vocab_size));
    const bool has_second = std::string(layout.words.bias) != std::string(layout.words.decoder) + ".bias";
    // Hugging Face's class has it too and does not use it: it is kept so that files are written as they were read.
    std::string name;
    if (has_second) scope_of(*this, layout.words.bias, name).register_buffer(name, at::zeros({config.vocab_size}));
  }
  this->fill(weights);
}

template <typename Family>
at::Tensor EncoderForMaskedLMImpl<Family>::forward(const TokenInputs& inputs) {
  const Activation activation = layout_of<Family>().words.activation.value_or(this->config().hidden_act);
  const at::Tensor hidden = encoder_->forward(inputs).last_hidden_state;
  const at::Tensor transformed = norm_->forward(activate(activation, dense_->forward(hidden.flatten(0, 1))));
  const at::Tensor scores = decoder_
                                ? decoder_->forward(transformed)
                                : dense(transformed, encoder_->word_embeddings().weight(), bias_, WeightLayout::OutIn);
  return scores.view({hidden.size(0), hidden.size(1), -1});
}

template <typename Family>
Batch EncoderForMaskedLMImpl<Family>::random_batch(const RandomBatchOptions& options) const {
  const EncoderConfig<Family>& config = this->config();
  return random_masked_texts(options, config.vocab_size, config.max_positions(), config.pad_token_id.value_or(0),
                             kArchitecture);
}

template <typename Family>
LossSum EncoderForMaskedLMImpl<Family>::loss(const at::Tensor& output, const Batch& batch) const {
  return cross_entropy_sum(output.flatten(0, -2), this->field(batch, "labels").flatten(), kArchitecture);
}

template class PretrainedModule<RobertaForMaskedLMImpl, RobertaConfig, Model>;
template class PretrainedModule<DistilBertForMaskedLMImpl, DistilBertConfig, Model>;
template class PretrainedModule<ElectraForMaskedLMImpl, ElectraConfig, Model>;
template class PretrainedModule<MPNetForMaskedLMImpl, MPNetConfig, Model>;
template class PretrainedTextModel<RobertaForMaskedLMImpl, RobertaConfig>;
template class PretrainedTextModel<DistilBertForMaskedLMImpl, DistilBertConfig>;
template class PretrainedTextModel<ElectraForMaskedLMImpl, ElectraConfig>;
template class PretrainedTextModel<MPNetForMaskedLMImpl, MPNetConfig>;
template class EncoderForMaskedLMImpl<Roberta>;
template class EncoderForMaskedLMImpl<DistilBert>;
template class EncoderForMaskedLMImpl<Electra>;
template class EncoderForMaskedLMImpl<MPNet>;

}  // namespace lockstep
