#include "lockstep/models/encoders/encoder_layout.h"

namespace lockstep {
namespace {

constexpr ClassifierLayout kTanhClassifier{"classifier.dense", "classifier.out_proj", Activation::Tanh, true};
constexpr WordScoresLayout kLmHead{"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias",
                                   Activation::Gelu};

EncoderLayout roberta_layout() {
  EncoderLayout layout;
  layout.name = "roberta";
  layout.has_pooler = true;
  layout.counts_positions_from_padding = true;
  layout.classifier = kTanhClassifier;
  layout.words = kLmHead;
  return layout;
}

EncoderLayout distilbert_layout() {
  EncoderLayout layout;
  layout.name = "distilbert";
  layout.stack = "transformer";
  layout.layer = {"attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
                  "sa_layer_norm",   "ffn.lin1",        "ffn.lin2",        "output_layer_norm"};
  layout.json = {"dim",        "n_layers", "n_heads",           "hidden_dim",
                 "activation", "dropout",  "attention_dropout", "seq_classif_dropout"};
  layout.has_segments = false;
  layout.classifier = {"pre_classifier", "classifier", Activation::Relu, false};
  layout.words = {"vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias", std::nullopt};
  return layout;
}

EncoderLayout electra_layout() {
  EncoderLayout layout;
  layout.name = "electra";
  layout.classifier = {"classifier.dense", "classifier.out_proj", Activation::Gelu, true};
  layout.words = {"generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head",
                  "generator_lm_head.bias", Activation::Gelu};
  return layout;
}

EncoderLayout mpnet_layout() {
  EncoderLayout layout;
  layout.name = "mpnet";
  layout.layer = {"attention.attn.q",    "attention.attn.k",   "attention.attn.v", "attention.attn.o",
                  "attention.LayerNorm", "intermediate.dense", "output.dense",     "output.LayerNorm"};
  layout.has_segments = false;
  layout.has_pooler = true;
  layout.counts_positions_from_padding = true;
  layout.has_relative_bias = true;
  layout.classifier = kTanhClassifier;
  layout.words = kLmHead;
  return layout;
}

}  // namespace

template <>
const EncoderLayout& layout_of<Roberta>() {
  static const EncoderLayout layout = roberta_layout();
  return layout;
}

template <>
const EncoderLayout& layout_of<DistilBert>() {
  static const EncoderLayout layout = distilbert_layout();
  return layout;
}

template <>
const EncoderLayout& layout_of<Electra>() {
  static const EncoderLayout layout = electra_layout();
  return layout;
}

template <>
const EncoderLayout& layout_of<MPNet>() {
  static const EncoderLayout layout = mpnet_layout();
  return layout;
}

}  // namespace lockstep
