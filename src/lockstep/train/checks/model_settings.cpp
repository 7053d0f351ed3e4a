#include "lockstep/train/checks/model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/base/text/affixes.h"

namespace lockstep {
namespace {

constexpr const char* kParting = ": ";  // between file and setting
// A longer file, such as tokenizer.json, is compared as a whole.
constexpr std::size_t kLongestSettings = 64 << 10;

// A folder may have another path on each host, and copies of a model may have been saved by several versions.
constexpr const char* kOfNoConsequence[] = {
    "_name_or_path",           "name_or_path", "_commit_hash",        "tokenizer_file",
    "special_tokens_map_file", "cache_dir",    "transformers_version"};

constexpr const char* kModelConfig = "config.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";

// What is not looked at while a training computes.
constexpr const char* kOfNoTraining[] = {"max_seq_length", "architectures", "use_cache", "dtype", "torch_dtype"};
constexpr const char* kFilesOfNoTraining[] = {"generation_config.json", "chat_template.json"};

// Another program may write the same model with more settings or fewer. Settings of config.json that one side alone has
// are compared only if they are read: those whose defaults are not written, or are null.
constexpr const char* kReadIfThere[] = {"pad_token_id", "problem_type", "classifier_dropout", "seq_classif_dropout",
                                        "n_inner"};
// What tokenizer_config.json says beside tokenizer.json, which holds all else that was read.
constexpr const char* kReadOfTokenizer[] = {"unk_token", "pad_token", "cls_token",       "sep_token",   "mask_token",
                                            "bos_token", "eos_token", "truncation_side", "padding_side"};
// A training that masks tokens reads which ones are never masked. Any other reads nothing of these: what they do else
// is in tokenizer.json.
constexpr const char* kReadByMasking[] = {"unk_token", "cls_token", "sep_token", "mask_token", "bos_token"};
constexpr const char* kUsualSide = "right";

constexpr const char* kFilesOfTokenizer[] = {"tokenizer.json", kTokenizerConfig, "vocab.txt", "vocab.json",
                                             "merges.txt"};

template <std::size_t count>
bool is_one_of(const char* const (&names)[count], const std::string& name) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* const each) { return name == each; });
}

struct SettingPlace {
  std::string file, setting;  // no setting: all of the file
};

SettingPlace setting_place(const std::string& name) {
  const std::size_t end = name.find(kParting);
  if (end == std::string::npos) return {name, ""};
  return {name.substr(0, end), name.substr(end + std::char_traits<char>::length(kParting))};
}

bool is_usual_side(const std::string& setting, const nlohmann::json& value) {
  return ends_with(setting, "_side") && (value.is_null() || value == kUsualSide);
}

// Unless config.json says that the model has another head than one for masked tokens.
bool may_mask(const nlohmann::json& settings) {
  const nlohmann::json heads = settings.value(std::string(kModelConfig) + kParting + "architectures", nlohmann::json());
  if (!heads.is_array() || heads.empty()) return true;
  return std::any_of(heads.begin(), heads.end(), [](const nlohmann::json& head) {
    return !head.is_string() || head.get_ref<const std::string&>().find("MaskedLM") != std::string::npos;
  });
}

bool trains_otherwise(const SettingDifference& difference, bool masks) {
  const auto [file, setting] = setting_place(difference.name);
  if (file == kTokenizerConfig && !masks && is_one_of(kReadByMasking, setting)) return false;
  if (is_one_of(kFilesOfNoTraining, file) || is_one_of(kOfNoTraining, setting)) return false;
  if (ends_with(file, ".jinja") || ends_with(file, ".md")) return false;
  if (file == kTokenizerConfig) {
    const bool is_usual = is_usual_side(setting, difference.mine) && is_usual_side(setting, difference.theirs);
    return is_one_of(kReadOfTokenizer, setting) && !is_usual;
  }
  const bool is_in_both = !difference.mine.is_null() && !difference.theirs.is_null();
  return is_in_both || file != kModelConfig || is_one_of(kReadIfThere, setting);
}

}  // namespace

nlohmann::json model_settings(const TrainableModel& model) {
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& [file, text] : model.files()) {
    const bool is_short = text.size() <= kLongestSettings;
    const nlohmann::json json = is_short ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
    if (!json.is_object()) {
      settings[file] = hash_text(text.data(), text.size());
      continue;
    }
    for (const auto& [name, value] : json.items()) {
      if (!is_one_of(kOfNoConsequence, name)) settings[file + kParting + name] = value;
    }
  }
  return settings;
}

std::vector<SettingDifference> model_changes(const nlohmann::json& now, const nlohmann::json& before) {
  if (!now.is_object() || !before.is_object()) return {};
  std::vector<SettingDifference> changes = setting_differences(now, before);
  const bool masks = may_mask(now) || may_mask(before);
  const auto changes_nothing = [&](const SettingDifference& each) { return !trains_otherwise(each, masks); };
  changes.erase(std::remove_if(changes.begin(), changes.end(), changes_nothing), changes.end());
  return changes;
}

std::string setting_text(const SettingDifference& difference, const std::string& me, const std::string& them) {
  const auto [file, setting] = setting_place(difference.name);
  const bool is_in_both = !difference.mine.is_null() && !difference.theirs.is_null();
  if (!setting.empty() || !is_in_both) return difference.text(me, them);
  return fmt::format("{} is another file for {} than for {}", file, me, them);
}

std::vector<std::string> warnings_of_model(const std::vector<SettingDifference>& changes,
                                           const std::string& checkpoint) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> warnings;
  if (changes.empty()) return warnings;
  for (std::size_t i = 0; i < std::min(kMost, changes.size()); ++i) {
    warnings.push_back(setting_text(changes[i], "this run", "the checkpoint") + ": from here on, this run's counts");
  }
  if (changes.size() > kMost) {
    warnings.push_back(
        fmt::format("{} more settings of the model differ from the checkpoint's", changes.size() - kMost));
  }
  warnings.push_back("the settings of the model or tokenizer differ from the checkpoint's: --model " + checkpoint +
                     " takes both from there");
  return warnings;
}

bool is_of_tokenizer(const std::string& setting) { return is_one_of(kFilesOfTokenizer, setting_place(setting).file); }

}  // namespace lockstep
