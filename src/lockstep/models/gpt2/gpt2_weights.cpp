#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "lockstep/detail/models/gpt2_config.h"
#include "lockstep/models/pretrained_model_bodies.h"

namespace lockstep {
namespace {

// Removes `end` from the end of `text`, if it stands there.
bool take_end(std::string_view& text, std::string_view end) {
  if (text.size() < end.size() || text.substr(text.size() - end.size()) != end) return false;
  text.remove_suffix(end.size());
  return true;
}

// "h.3.attn.bias" or "h.3.attn.masked_bias", behind any prefix: tables for causality, which older versions saved.
// std::regex would call itself for each digit, and a file may hold a name of any length.
bool is_causal_table(std::string_view name) {
  if (!take_end(name, ".attn.bias") && !take_end(name, ".attn.masked_bias")) return false;
  const std::size_t length = name.size();
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) name.remove_suffix(1);
  return name.size() < length && take_end(name, "h.");
}

}  // namespace

WeightRules weight_rules(const GPT2Config& config, const std::string& architecture) {
  WeightRules rules;
  rules.architecture = architecture;
  rules.vocab_size = config.vocab_size;
  rules.base_prefix = "transformer";
  if (config.tie_word_embeddings && architecture == "GPT2LMHeadModel") {
    rules.tied.emplace_back("lm_head.weight", "transformer.wte.weight");
  }
  rules.is_ignored = is_causal_table;
  const double range = config.initializer_range;
  const double residual_range = range / std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(config.n_layer, 1)));
  rules.initialize = [=](const std::string& name, at::Tensor& parameter) {
    // GPT-2 compensates for the sum over residual layers.
    const bool is_residual = name.find("c_proj.weight") != std::string::npos;
    initialize_transformer_parameter(name, parameter, is_residual ? residual_range : range);
  };
  return rules;
}

ParameterCount parameter_count(const GPT2Config& config) {
  const double width = static_cast<double>(config.n_embd);
  const double words = static_cast<double>(config.vocab_size + config.n_positions);
  const double layer = width * (4 * width + 2 * static_cast<double>(config.n_inner.value_or(4 * config.n_embd)));
  return {width * words + static_cast<double>(config.n_layer) * layer,
          "vocab_size, n_positions, n_embd, n_inner, n_layer"};
}

}  // namespace lockstep
