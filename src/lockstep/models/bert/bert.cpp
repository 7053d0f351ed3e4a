#include "lockstep/models/bert.h"

#include "lockstep/models/bert/bert_embeddings.h"
#include "lockstep/models/bert/bert_layer.h"
#include "lockstep/models/bert/bert_pooler.h"
#include "lockstep/models/pretrained_model_bodies.h"

namespace lockstep {

BertModelImpl::BertModelImpl(const BertConfig& config, bool has_pooler, InitialWeights weights)
    : PretrainedModule(config) {
  config.check(kArchitecture);
  embeddings_ =
      register_module("embeddings", std::make_shared<BertEmbeddings>(config, EmbeddingLayout{config.hidden_size}));
  encoder_ = register_module("encoder", std::make_shared<BertEncoder>(config));
  if (has_pooler) pooler_ = register_module("pooler", std::make_shared<BertPooler>(config.hidden_size));
  fill(weights);
}

BertModelImpl::~BertModelImpl() = default;

BertOutput BertModelImpl::forward(const TokenInputs& inputs, HiddenRows rows) {
  check_token_inputs(inputs, {config().vocab_size, config().max_position_embeddings, config().type_vocab_size},
                     kArchitecture);
  BertOutput output;
  output.last_hidden_state = encoder_->forward(embeddings_->forward(inputs), inputs, rows);
  if (pooler_) output.pooler_output = pooler_->forward(output.last_hidden_state);
  return output;
}

const Embedding& BertModelImpl::word_embeddings() const { return embeddings_->words(); }

template class PretrainedModule<BertModelImpl, BertConfig, torch::nn::Module>;

}  // namespace lockstep
