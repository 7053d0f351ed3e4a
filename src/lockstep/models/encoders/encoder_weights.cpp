#include <ATen/ops/arange.h>
#include <ATen/ops/pow.h>

#include "lockstep/base/text/affixes.h"
#include "lockstep/models/encoders/encoder_bodies.h"

namespace lockstep {
namespace {

// Vaswani et al., 2017, arXiv:1706.03762, section 3.5.
void fill_with_sines(at::Tensor& table) {
  const std::int64_t width = table.size(1);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor rates = at::pow(10000, (at::arange(0, width, 2, options)) / static_cast<double>(width));
  const at::Tensor angles = at::arange(table.size(0), options).unsqueeze(1) / rates;
  table.slice(1, 0, width, 2).copy_(angles.sin());
  table.slice(1, 1, width, 2).copy_(angles.cos().narrow(1, 0, width / 2));
}

void initialize_encoder(const BertConfig& config, const EncoderLayout& layout, bool has_sines, const std::string& name,
                        at::Tensor& parameter) {
  initialize_transformer_parameter(name, parameter, config.initializer_range);
  const bool is_positions = ends_with(name, "position_embeddings.weight");
  if (is_positions && has_sines) fill_with_sines(parameter);
  const bool has_padding =
      ends_with(name, "word_embeddings.weight") || (is_positions && layout.counts_positions_from_padding);
  if (has_padding && config.pad_token_id) parameter.select(0, *config.pad_token_id).zero_();
}

}  // namespace

template <typename Family>
WeightRules weight_rules(const EncoderConfig<Family>& config, const std::string& architecture) {
  const EncoderLayout& layout = layout_of<Family>();
  const std::string decoder = layout.words.decoder, bias = layout.words.bias;
  WeightRules rules;
  rules.architecture = architecture;
  rules.vocab_size = config.vocab_size;
  rules.base_prefix = layout.name;
  if (architecture == Family::kMaskedLM) {
    if (config.tie_word_embeddings) {
      rules.tied.emplace_back(decoder + ".weight", rules.base_prefix + ".embeddings.word_embeddings.weight");
    }
    if (bias != decoder + ".bias") {  // files of transformers 4 have one of the two, because there both were one tensor
      rules.tied.emplace_back(decoder + ".bias", bias);
      if (!config.tie_word_embeddings) rules.tied.emplace_back(bias, decoder + ".bias");
    }
  }
  rules.is_ignored = [](const std::string& name) {  // tables that older versions saved
    return ends_with(name, "embeddings.position_ids") || ends_with(name, "embeddings.token_type_ids");
  };
  rules.initialize = [config, &layout](const std::string& name, at::Tensor& parameter) {
    initialize_encoder(config, layout, config.has_sinusoidal_positions, name, parameter);
  };
  return rules;
}

template WeightRules weight_rules(const RobertaConfig& config, const std::string& architecture);
template WeightRules weight_rules(const DistilBertConfig& config, const std::string& architecture);
template WeightRules weight_rules(const ElectraConfig& config, const std::string& architecture);
template WeightRules weight_rules(const MPNetConfig& config, const std::string& architecture);

}  // namespace lockstep
