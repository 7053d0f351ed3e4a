#include "lockstep/models/tied_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include "lockstep/base/text/affixes.h"

namespace lockstep {

std::optional<std::string> name_in_file(const WeightRules& rules, const WeightFiles& files, const std::string& name) {
  if (files.contains(name)) return name;
  const std::string prefix = rules.base_prefix + ".";
  if (rules.base_prefix.empty() || !starts_with(name, prefix)) return std::nullopt;
  const std::string bare = name.substr(prefix.size());
  return files.contains(bare) ? std::optional<std::string>(bare) : std::nullopt;
}

bool are_equal(const WeightFiles& files, const std::string& first, const std::string& second) {
  if (files.entry(first).shape != files.entry(second).shape) return false;
  return at::equal(files.tensor(first).to(at::kFloat), files.tensor(second).to(at::kFloat));
}

std::string weights_to_untie(const WeightRules& rules, const std::string& folder) {
  std::string lines;
  if (rules.tied.empty()) return lines;
  const WeightFiles files(folder);
  for (const auto& [other, own] : rules.tied) {
    if (!ends_with(own, ".weight") || !files.contains(other)) continue;
    const std::optional<std::string> source = name_in_file(rules, files, own);
    if (!source || are_equal(files, *source, other)) continue;
    lines += fmt::format(
        "The config.json of {} ties {} to {}, but the file has both with different values: they are NOT tied, and the "
        "model keeps both. Set \"tie_word_embeddings\" to false in config.json to silence this.\n",
        folder, other, *source);
  }
  files.require_whole();
  return lines;
}

std::string line_of_two_biases(const std::string& used, const std::string& unused) {
  return fmt::format(
      "The file has both {} and {}, which are one, with different values: the first scores words and is used, the "
      "second is NOT used.\n",
      used, unused);
}

std::string tied_tensors_that_differ(const WeightRules& rules, const std::string& folder) {
  std::string lines = weights_to_untie(rules, folder);
  if (rules.tied.empty()) return lines;
  const WeightFiles files(folder);
  for (const auto& [other, own] : rules.tied) {
    if (!ends_with(own, ".bias") || !files.contains(other)) continue;
    const std::optional<std::string> source = name_in_file(rules, files, own);
    if (source && !are_equal(files, *source, other)) lines += line_of_two_biases(other, *source);
  }
  files.require_whole();
  return lines;
}

}  // namespace lockstep
