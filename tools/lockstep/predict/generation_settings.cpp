#include "tools/lockstep/predict/generation_settings.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/detail/models/config_file.h"
#include "tools/lockstep/flags/model_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// A setting that is not supported, and the value at which it changes nothing. Null changes nothing either.
struct NeutralSetting {
  const char* name;
  const char* neutral;
  bool draws = false;  // matters only if tokens are drawn
};
constexpr NeutralSetting kNeutralSettings[] = {{"top_p", "1", true},
                                               {"min_p", "0", true},
                                               {"typical_p", "1", true},
                                               {"epsilon_cutoff", "0", true},
                                               {"eta_cutoff", "0", true},
                                               {"num_beams", "1"},
                                               {"num_beam_groups", "1"},
                                               {"num_return_sequences", "1"},
                                               {"penalty_alpha", "0"},
                                               {"diversity_penalty", "0"},
                                               {"repetition_penalty", "1"},
                                               {"encoder_repetition_penalty", "1"},
                                               {"no_repeat_ngram_size", "0"},
                                               {"encoder_no_repeat_ngram_size", "0"},
                                               {"bad_words_ids", "null"},
                                               {"force_words_ids", "null"},
                                               {"forced_bos_token_id", "null"},
                                               {"forced_eos_token_id", "null"},
                                               {"suppress_tokens", "null"},
                                               {"begin_suppress_tokens", "null"},
                                               {"sequence_bias", "null"},
                                               {"exponential_decay_length_penalty", "null"},
                                               {"min_length", "0"},
                                               {"min_new_tokens", "0"},
                                               {"guidance_scale", "1"},
                                               {"constraints", "null"},
                                               {"max_time", "null"},
                                               {"stop_strings", "null"},
                                               {"dola_layers", "null"},
                                               {"watermarking_config", "null"}};

std::string settings_not_applied(const ConfigFile& file, bool draws) {
  std::string names;
  for (const NeutralSetting& setting : kNeutralSettings) {
    const auto found = file.json().find(setting.name);
    if (found == file.json().end() || found->is_null() || (setting.draws && !draws)) continue;
    if (*found == nlohmann::json::parse(setting.neutral)) continue;
    if ((found->is_array() || found->is_object()) && found->empty()) continue;
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", setting.name, found->dump());
  }
  if (names.empty()) return names;
  return fmt::format("{}: not supported and not applied, so transformers may continue texts otherwise: {}", file.path(),
                     names);
}

// "eos_token_id" is one id, or a list.
std::optional<std::set<std::int64_t>> ends_of(const ConfigFile& file) {
  constexpr const char* kKey = "eos_token_id";
  if (!file.has(kKey)) return std::nullopt;
  const nlohmann::json& value = file.json().at(kKey);
  std::set<std::int64_t> ends;
  for (const nlohmann::json& one : value.is_array() ? value : nlohmann::json::array({value})) {
    if (!one.is_number_integer()) file.refuse(kKey, "is not a number or a list of numbers", "give the ids of tokens");
    ends.insert(one.get<std::int64_t>());
  }
  return ends;
}

}  // namespace

GenerationSettings generation_settings(const PredictFlags& flags, const Tokenizer& tokenizer) {
  GenerationSettings settings;
  const auto apply_flags = [&] {
    settings.max_new_tokens = flags.max_new_tokens.value_or(settings.max_new_tokens);
    settings.temperature = flags.temperature.value_or(settings.temperature);
    settings.top_k = flags.top_k.value_or(settings.top_k);
  };
  std::optional<std::set<std::int64_t>> ends;
  const fs::path path = fs::path(flags.model) / kGenerationFile;
  if (fs::exists(path)) {
    const ConfigFile file(path.string());
    settings.max_new_tokens =
        file.integer({"max_new_tokens"}, settings.max_new_tokens, 1, std::numeric_limits<std::int32_t>::max());
    settings.top_k = file.integer({"top_k"}, settings.top_k, 0, std::numeric_limits<std::int32_t>::max());
    if (file.boolean({"do_sample"}, false)) settings.temperature = file.number({"temperature"}, 1, 1e-9, 1e9);
    apply_flags();
    settings.not_applied = settings_not_applied(file, settings.temperature > 0);
    ends = ends_of(file);
  }
  apply_flags();
  if (!ends) ends = ends_of(ConfigFile(flags.model));
  if (ends) {
    settings.ends = *ends;
  } else if (const auto end = tokenizer.eos_id()) {
    settings.ends.insert(*end);
  }
  return settings;
}

}  // namespace lockstep
