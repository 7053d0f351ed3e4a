#include "lockstep/models/bert/bert_embeddings.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "lockstep/models/layers/dropout.h"

namespace lockstep {

BertEmbeddings::BertEmbeddings(const BertConfig& c)
    : dropout_(c.hidden_dropout_prob),
      words_(register_module("word_embeddings",
                             std::make_shared<Embedding>(c.vocab_size, c.hidden_size, c.pad_token_id.value_or(-1)))),
      positions_(register_module("position_embeddings",
                                 std::make_shared<Embedding>(c.max_position_embeddings, c.hidden_size))),
      segments_(
          register_module("token_type_embeddings", std::make_shared<Embedding>(c.type_vocab_size, c.hidden_size))),
      norm_(register_module("LayerNorm", std::make_shared<Norm>(c.hidden_size, c.layer_norm_eps))) {}

at::Tensor BertEmbeddings::segments_and_positions(const TokenInputs& inputs) const {
  const auto options = at::TensorOptions().dtype(at::kLong).device(inputs.input_ids.device());
  const std::int64_t length = inputs.input_ids.size(1);
  // Without segments every token is in segment 0: one row serves all texts.
  const at::Tensor segments =
      segments_->forward(inputs.token_type_ids.defined() ? inputs.token_type_ids : at::zeros({1, length}, options));
  const at::Tensor positions = positions_->forward(
      inputs.position_ids.defined() ? inputs.position_ids : at::arange(length, options).unsqueeze(0));
  return segments + positions;
}

at::Tensor BertEmbeddings::forward(const TokenInputs& inputs) const {
  const at::Tensor sum = words_->forward(inputs.input_ids) + segments_and_positions(inputs);
  return apply_dropout(norm_->forward(sum).flatten(0, 1), dropout_, is_training());
}

}  // namespace lockstep
