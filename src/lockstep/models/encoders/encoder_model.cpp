#include "lockstep/models/bert/bert_pooler.h"
#include "lockstep/models/encoders/encoder_bodies.h"

namespace lockstep {

template <typename Family>
EncoderModelImpl<Family>::EncoderModelImpl(const EncoderConfig<Family>& config, bool has_pooler, InitialWeights weights)
    : PretrainedModule<EncoderModelImpl, EncoderConfig<Family>, torch::nn::Module>(config) {
  config.check(kArchitecture);
  const EncoderLayout& layout = layout_of<Family>();
  EmbeddingLayout embedding{embedding_width(config), layout.has_segments};
  if (layout.counts_positions_from_padding) embedding.padding_position = config.pad_token_id;
  embeddings_ = this->register_module("embeddings", std::make_shared<BertEmbeddings>(config, embedding));
  if (embedding.width != config.hidden_size) {
    projection_ =
        this->register_module("embeddings_project", std::make_shared<Dense>(embedding.width, config.hidden_size));
  }
  encoder_ = this->register_module(layout.stack,
                                   std::make_shared<BertEncoder>(config, layout.layer, layout.has_relative_bias));
  if (has_pooler && layout.has_pooler) {
    pooler_ = this->register_module("pooler", std::make_shared<BertPooler>(config.hidden_size));
  }
  this->fill(weights);
}

template <typename Family>
EncoderModelImpl<Family>::~EncoderModelImpl() = default;

template <typename Family>
BertOutput EncoderModelImpl<Family>::forward(const TokenInputs& inputs, HiddenRows rows) {
  const EncoderConfig<Family>& config = this->config();
  const std::int64_t positions = config.max_positions();
  check_token_inputs(inputs,
                     {config.vocab_size, positions, layout_of<Family>().has_segments ? config.type_vocab_size : -1,
                      config.max_position_embeddings - positions},
                     kArchitecture);
  at::Tensor embedded = embeddings_->forward(inputs);
  if (projection_) embedded = projection_->forward(embedded);
  BertOutput output;
  output.last_hidden_state = encoder_->forward(embedded, inputs, rows);
  if (pooler_) output.pooler_output = pooler_->forward(output.last_hidden_state);
  return output;
}

template <typename Family>
const Embedding& EncoderModelImpl<Family>::word_embeddings() const {
  return embeddings_->words();
}

template class PretrainedModule<RobertaModelImpl, RobertaConfig, torch::nn::Module>;
template class PretrainedModule<DistilBertModelImpl, DistilBertConfig, torch::nn::Module>;
template class PretrainedModule<ElectraModelImpl, ElectraConfig, torch::nn::Module>;
template class PretrainedModule<MPNetModelImpl, MPNetConfig, torch::nn::Module>;
template class EncoderModelImpl<Roberta>;
template class EncoderModelImpl<DistilBert>;
template class EncoderModelImpl<Electra>;
template class EncoderModelImpl<MPNet>;

}  // namespace lockstep
