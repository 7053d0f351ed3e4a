#pragma once

#include <optional>
#include <string>

#include "lockstep/detail/models/activation.h"
#include "lockstep/detail/models/encoder_config.h"
#include "lockstep/models/bert/bert_embeddings.h"
#include "lockstep/models/bert/bert_json.h"
#include "lockstep/models/bert/bert_layer.h"

namespace lockstep {

/// The two layers that score labels. Names are paths below the model.
struct ClassifierLayout {
  const char* dense;
  const char* scores;
  Activation activation;  ///< between the two
  bool drops_input;       ///< dropout before the first layer, too
};

/// The layers that score words: dense, activation, norm, then the words' table and a bias, or a decoder of its own.
struct WordScoresLayout {
  const char* dense;
  const char* norm;
  const char* decoder;                   ///< "lm_head.decoder"
  const char* bias;                      ///< of tied words: "lm_head.bias"
  std::optional<Activation> activation;  ///< default: the layers'
};

/// In what a family of models differs from BERT: names, and a few computations.
struct EncoderLayout {
  const char* name;  ///< "roberta": model_type, and the beginning of the names of a base model's weights
  const char* stack = "encoder";
  BertLayerNames layer = kBertLayerNames;
  BertJsonKeys json = kBertJsonKeys;
  bool has_segments = true;
  bool has_pooler = false;
  bool counts_positions_from_padding = false;  ///< positions begin behind the id of padding, which has its own row
  bool has_relative_bias = false;              ///< attention adds a learned number for each distance
  ClassifierLayout classifier;
  WordScoresLayout words;
};

/// The layout of Roberta, DistilBert, Electra or MPNet.
template <typename Family>
const EncoderLayout& layout_of();

}  // namespace lockstep
