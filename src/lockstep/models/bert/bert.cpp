#include "lockstep/models/bert.h"

#include <ATen/ops/tanh.h>

#include "lockstep/models/bert/bert_embeddings.h"
#include "lockstep/models/bert/bert_layer.h"
#include "lockstep/models/bert/bert_weights.h"

namespace lockstep {
namespace {

constexpr const char* kBertModel = "BertModel";

}  // namespace

class BertPooler : public torch::nn::Module {
 public:
  explicit BertPooler(std::int64_t size) : dense_(register_module("dense", std::make_shared<Dense>(size, size))) {}
  at::Tensor forward(const at::Tensor& hidden) const { return at::tanh(dense_->forward(hidden.select(1, 0))); }

 private:
  std::shared_ptr<Dense> dense_;
};

BertModelImpl::BertModelImpl(const BertConfig& config, bool has_pooler, InitialWeights weights)
    : torch::nn::Module(kBertModel), config_(config) {
  config_.check(kBertModel);
  embeddings_ = register_module("embeddings", std::make_shared<BertEmbeddings>(config_));
  encoder_ = register_module("encoder", std::make_shared<BertEncoder>(config_));
  if (has_pooler) pooler_ = register_module("pooler", std::make_shared<BertPooler>(config_.hidden_size));
  if (weights == InitialWeights::Unset) return;
  initialize_parameters(*this, bert_weight_rules(config_, kBertModel).initialize);
}

BertModelImpl::~BertModelImpl() = default;

Loaded<BertModelImpl> BertModelImpl::from_pretrained(const std::string& folder, const LoadOptions& options) {
  const BertConfig config = bert_config_for(folder, options);
  auto model =
      build_model(folder, [&] { return std::make_shared<BertModelImpl>(config, true, InitialWeights::Unset); });
  LoadReport report = load_weights(*model, bert_weight_rules(config, kBertModel), folder, options);
  return {std::move(model), std::move(report)};
}

void BertModelImpl::save_pretrained(const std::string& folder, std::uint64_t max_shard_bytes) const {
  lockstep::save_pretrained(*this, config_.to_json(kBertModel), folder, max_shard_bytes);
}

BertOutput BertModelImpl::forward(const TokenInputs& inputs) {
  check_token_inputs(inputs, {config_.vocab_size, config_.max_position_embeddings, config_.type_vocab_size},
                     kBertModel);
  AttentionOptions options;
  options.size = inputs.input_ids.size(0);
  options.length = inputs.input_ids.size(1);
  options.mask = additive_mask(inputs.attention_mask, embeddings_->words().weight().scalar_type());
  const at::Tensor hidden = encoder_->forward(embeddings_->forward(inputs), options);
  BertOutput output;
  output.last_hidden_state = hidden.view({options.size, options.length, config_.hidden_size});
  if (pooler_) output.pooler_output = pooler_->forward(output.last_hidden_state);
  return output;
}

const Embedding& BertModelImpl::word_embeddings() const { return embeddings_->words(); }

}  // namespace lockstep
