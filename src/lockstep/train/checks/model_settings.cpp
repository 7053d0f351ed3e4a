#include "lockstep/train/checks/model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "lockstep/base/random/hash_bytes.h"

namespace lockstep {
namespace {

// A folder may have another path on each host, and copies of a model may have been saved by several versions.
constexpr const char* kOfNoConsequence[] = {
    "_name_or_path",           "name_or_path", "_commit_hash",        "tokenizer_file",
    "special_tokens_map_file", "cache_dir",    "transformers_version"};
// A longer file, such as tokenizer.json, is compared as a whole.
constexpr std::size_t kLongestSettings = 64 << 10;

std::string digest_of_text(const std::string& text) {
  return fmt::format("{:016x}", hash_bytes(text.data(), text.size()));
}

bool matters(const std::string& setting) {
  return std::none_of(std::begin(kOfNoConsequence), std::end(kOfNoConsequence),
                      [&](const char* const name) { return setting == name; });
}

}  // namespace

nlohmann::json model_settings(const TrainableModel& model) {
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& [file, text] : model.files()) {
    const bool is_short = text.size() <= kLongestSettings;
    const nlohmann::json json = is_short ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
    if (!json.is_object()) {
      settings[file] = digest_of_text(text);
      continue;
    }
    for (const auto& [name, value] : json.items()) {
      if (matters(name)) settings[fmt::format("{}: {}", file, name)] = value;
    }
  }
  return settings;
}

}  // namespace lockstep
