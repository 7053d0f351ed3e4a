#include "lockstep/models/bert/bert_embeddings.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "lockstep/models/layers/dropout.h"

namespace lockstep {
namespace {

// The first token has the number behind that of padding, the next one more, and padding its own.
at::Tensor positions_behind(std::int64_t padding, const at::Tensor& ids) {
  const at::Tensor is_token = ids.ne(padding).to(at::kLong);
  return is_token.cumsum(1) * is_token + padding;
}

at::Tensor positions_of_rows(const at::Tensor& ids) {
  return at::arange(ids.size(1), at::TensorOptions().dtype(at::kLong).device(ids.device())).unsqueeze(0);
}

}  // namespace

BertEmbeddings::BertEmbeddings(const BertConfig& c, const EmbeddingLayout& layout)
    : dropout_(c.hidden_dropout_prob),
      padding_position_(layout.padding_position),
      words_(register_module("word_embeddings",
                             std::make_shared<Embedding>(c.vocab_size, layout.width, c.pad_token_id.value_or(-1)))),
      positions_(register_module(
          "position_embeddings",
          std::make_shared<Embedding>(c.max_position_embeddings, layout.width, padding_position_.value_or(-1)))),
      segments_(layout.has_segments ? register_module("token_type_embeddings",
                                                      std::make_shared<Embedding>(c.type_vocab_size, layout.width))
                                    : nullptr),
      norm_(register_module("LayerNorm", std::make_shared<Norm>(layout.width, c.layer_norm_eps))) {}

at::Tensor BertEmbeddings::segments_and_positions(const TokenInputs& inputs) const {
  const at::Tensor& ids = inputs.input_ids;
  const at::Tensor numbers = inputs.position_ids.defined() ? inputs.position_ids
                             : padding_position_           ? positions_behind(*padding_position_, ids)
                                                           : positions_of_rows(ids);
  const at::Tensor positions = positions_->forward(numbers);
  if (!segments_) return positions;
  // Without segments every token is in segment 0: one row serves all texts.
  const auto options = at::TensorOptions().dtype(at::kLong).device(ids.device());
  return segments_->forward(inputs.token_type_ids.defined() ? inputs.token_type_ids
                                                            : at::zeros({1, ids.size(1)}, options)) +
         positions;
}

at::Tensor BertEmbeddings::forward(const TokenInputs& inputs) const {
  const at::Tensor sum = words_->forward(inputs.input_ids) + segments_and_positions(inputs);
  return apply_dropout(norm_->forward(sum).flatten(0, 1), dropout_, is_training());
}

}  // namespace lockstep
