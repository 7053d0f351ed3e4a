#pragma once

#include "lockstep/models/encoder_models.h"
#include "lockstep/models/encoders/encoder_layout.h"
#include "lockstep/models/pretrained_model_bodies.h"

// What the sources of the encoders' classes share.
namespace lockstep {

/// The rules for reading weights of one class of a family. @param architecture  name of the class
template <typename Family>
WeightRules weight_rules(const EncoderConfig<Family>& config, const std::string& architecture);

/// Embeddings of ELECTRA may be narrower than its layers.
template <typename Family>
std::int64_t embedding_width(const EncoderConfig<Family>& config) {
  return config.embedding_size > 0 ? config.embedding_size : config.hidden_size;
}

}  // namespace lockstep
