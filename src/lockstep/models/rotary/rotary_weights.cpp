#include "lockstep/base/text/affixes.h"
#include "lockstep/models/rotary/rotary_bodies.h"

namespace lockstep {
namespace {

constexpr const char* kCausalEnd = "ForCausalLM";

void initialize_rotary(const RotarySettings& settings, const std::string& name, at::Tensor& parameter) {
  if (ends_with(name, "norm.weight")) {
    parameter.fill_(1);
  } else if (ends_with(name, ".bias")) {
    parameter.zero_();
  } else {
    parameter.normal_(0, settings.initializer_range);
  }
  if (ends_with(name, "embed_tokens.weight") && settings.pad_token_id)
    parameter.select(0, *settings.pad_token_id).zero_();
}

}  // namespace

WeightRules weight_rules(const RotarySettings& settings, const std::string& architecture) {
  WeightRules rules;
  rules.architecture = architecture;
  rules.vocab_size = settings.vocab_size;
  rules.base_prefix = "model";
  if (settings.tie_word_embeddings && ends_with(architecture, kCausalEnd)) {
    rules.tied.emplace_back("lm_head.weight", "model.embed_tokens.weight");
  }
  rules.is_ignored = [](const std::string& name) { return ends_with(name, "rotary_emb.inv_freq"); };  // of old files
  rules.initialize = [settings](const std::string& name, at::Tensor& parameter) {
    initialize_rotary(settings, name, parameter);
  };
  return rules;
}

ParameterCount parameter_count(const RotarySettings& s) {
  const auto width = static_cast<double>(s.hidden_size);
  const auto queries = static_cast<double>(s.num_attention_heads * s.head_size());
  const auto keys = static_cast<double>(s.key_value_heads() * s.head_size());
  const double layer = width * (2 * queries + 2 * keys + 3 * static_cast<double>(s.intermediate_size));
  const double words = width * static_cast<double>(s.vocab_size) * (s.tie_word_embeddings ? 1 : 2);
  return {words + static_cast<double>(s.num_hidden_layers) * layer,
          "vocab_size, hidden_size, intermediate_size, num_hidden_layers"};
}

}  // namespace lockstep
