#include "lockstep/models/pretrained.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/models/tied_weights.h"

namespace lockstep {
namespace {

// Older files use TensorFlow's names for the parameters of a layer norm.
std::string modern_name(std::string name) {
  for (const auto& [old_end, new_end] : {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")}) {
    const std::string end = old_end;
    if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0) {
      return name.substr(0, name.size() - end.size()) + new_end;
    }
  }
  return name;
}

using Targets = std::map<std::string, at::Tensor>;

Targets targets_of(const torch::nn::Module& module) {
  Targets targets;
  for (const auto& item : module.named_parameters()) targets.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) targets.emplace(item.key(), item.value());
  return targets;
}

// Maps a name in the file to a name in the model. As in Hugging Face's library, the whole file either has the prefix or
// lacks it.
class NameMap {
 public:
  NameMap(const WeightRules& rules, const std::vector<std::string>& names, const Targets& targets)
      : prefix_(rules.base_prefix + ".") {
    const auto has_prefix = [this](const std::string& name) { return starts_with(modern_name(name), prefix_); };
    const bool file_has = std::any_of(names.begin(), names.end(), has_prefix);
    const bool model_has =
        std::any_of(targets.begin(), targets.end(), [&](const auto& item) { return has_prefix(item.first); });
    adds_ = !rules.base_prefix.empty() && model_has && !file_has;
    removes_ = !rules.base_prefix.empty() && file_has && !model_has;
    targets_ = &targets;
    for (const auto& [other, own] : rules.tied) tied_.insert(other);
  }

  std::string operator()(const std::string& file_name) const {
    const std::string name = modern_name(file_name);
    if (adds_ && targets_->count(name) == 0 && tied_.count(name) == 0) return prefix_ + name;
    if (removes_ && starts_with(name, prefix_)) return name.substr(prefix_.size());
    return name;
  }

 private:
  std::string prefix_;
  bool adds_ = false;
  bool removes_ = false;
  const Targets* targets_ = nullptr;
  std::set<std::string> tied_;
};

struct Plan {
  std::map<std::string, std::string> source_of;  // parameter to the file's name
  std::vector<std::string> unexpected;
  std::string untied;

  // Two names of a file may mean one parameter, such as "gamma" and "weight". Its own name wins, and the other is
  // reported.
  void add(const std::string& parameter, const std::string& name) {
    const auto [at, is_new] = source_of.emplace(parameter, name);
    if (is_new) return;
    unexpected.push_back(name == parameter ? at->second : name);
    if (name == parameter) at->second = name;
  }
};

// A file may have a tied tensor under both names. The values of a bias that scores words are those under the further
// name, as in Hugging Face's library; a weight was untied before the model was built, if it could be.
void add_tied(const std::map<std::string, std::string>& tied_sources, const WeightFiles& files, Plan& plan) {
  for (const auto& [parameter, source] : tied_sources) {
    const auto [own, is_new] = plan.source_of.emplace(parameter, source);
    if (is_new || own->second == source || are_equal(files, own->second, source)) continue;
    if (!ends_with(parameter, ".bias")) {
      plan.unexpected.push_back(source);
      continue;
    }
    plan.untied += line_of_two_biases(source, own->second);
    own->second = source;
  }
}

Plan plan_of(const WeightRules& rules, const WeightFiles& files, const Targets& targets) {
  const std::vector<std::string> names = files.names();
  const NameMap map(rules, names, targets);
  Plan plan;
  std::map<std::string, std::string> tied_sources, further_sources;
  for (const std::string& name : names) {
    const std::string model_name = map(name);
    const auto tied =
        std::find_if(rules.tied.begin(), rules.tied.end(), [&](const auto& pair) { return pair.first == model_name; });
    const bool is_target = targets.count(model_name) != 0;
    if (is_target) plan.add(model_name, name);
    if (tied != rules.tied.end()) {
      // Both may be parameters of the model, for files that have one of the two.
      if (is_target) further_sources[tied->second] = name;
      if (!is_target) tied_sources[tied->second] = name;
    } else if (!is_target && (!rules.is_ignored || !rules.is_ignored(model_name))) {
      plan.unexpected.push_back(name);
    }
  }
  plan.source_of.insert(further_sources.begin(), further_sources.end());
  add_tied(tied_sources, files, plan);
  return plan;
}

std::string torch_size(const std::vector<std::int64_t>& shape) {
  return fmt::format("torch.Size([{}])", fmt::join(shape, ", "));
}

std::string mismatch_text(const LoadReport& report) {
  std::string text;
  for (const LoadReport::Mismatch& item : report.mismatched) {
    text += fmt::format("\n- {}: found shape {} in the checkpoint and {} in the model instantiated", item.name,
                        torch_size(item.file_shape), torch_size(item.model_shape));
  }
  return text;
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return "[" + text + "]";
}

}  // namespace

std::string LoadReport::text() const {
  constexpr const char* kTrain =
      "\nYou should probably TRAIN this model on a down-stream task to be able to use it for predictions and "
      "inference.\n";
  std::string text;
  if (!unexpected.empty()) {
    text += fmt::format(
        "Some weights of the model checkpoint at {0} were not used when initializing {1}: {2}\n"
        "- This IS expected if you are initializing {1} from the checkpoint of a model trained on another task or with "
        "another architecture.\n"
        "- This IS NOT expected if you are initializing {1} from the checkpoint of a model that you expect to be "
        "exactly identical.\n",
        path, architecture, list_text(unexpected));
  }
  text += vocabulary + untied;
  if (!missing.empty()) {
    text += fmt::format(
        "Some weights of {} were not initialized from the model checkpoint at {} and are newly initialized: {}{}",
        architecture, path, list_text(missing), kTrain);
  }
  if (!mismatched.empty()) {
    text += fmt::format(
        "Some weights of {} were not initialized from the model checkpoint at {} and are newly initialized because "
        "the shapes did not match:{}{}",
        architecture, path, mismatch_text(*this), kTrain);
  }
  return text;
}

LoadReport load_weights(torch::nn::Module& module, const WeightRules& rules, const std::string& path,
                        const LoadOptions& options) {
  const WeightFiles files(path);
  const Targets targets = targets_of(module);
  const Plan plan = plan_of(rules, files, targets);
  LoadReport report;
  report.path = path;
  report.architecture = rules.architecture;
  report.unexpected = plan.unexpected;
  report.untied = plan.untied;
  if (rules.vocab_size > 0) report.vocabulary = check_tokenizer_size(rules.vocab_size, path, options);
  for (const auto& [name, target] : targets) {
    const auto source = plan.source_of.find(name);
    if (source == plan.source_of.end()) {
      report.missing.push_back(name);
    } else if (files.entry(source->second).shape != target.sizes().vec()) {
      report.mismatched.push_back({name, files.entry(source->second).shape, target.sizes().vec()});
    }
  }
  if (!report.mismatched.empty() && !options.ignore_mismatched_sizes) {
    throw Error(fmt::format("weights have other shapes than {}:{}", rules.architecture, mismatch_text(report)),
                files.path(),
                "make config.json fit the weights (num_labels, vocab_size…), or have these newly initialised: "
                "--ignore-mismatched-sizes, in a program `ignore_mismatched_sizes`");
  }
  const at::NoGradGuard no_grad;
  for (auto [name, target] : targets) {
    const auto source = plan.source_of.find(name);
    const bool is_new = source == plan.source_of.end() || files.entry(source->second).shape != target.sizes().vec();
    if (!is_new) {
      target.copy_(files.tensor(source->second));
    } else if (rules.initialize) {
      rules.initialize(name, target);
    }
  }
  files.require_whole();
  return report;
}

void throw_unbuildable(const std::string& folder, const std::exception& cause) {
  const std::string message = cause.what();
  throw Error("no model of these sizes can be built: " + message.substr(0, message.find('\n')),
              folder + ", config.json",
              "check vocab_size, the hidden sizes and the number of layers, or use a machine with more memory");
}

std::string check_tokenizer_size(std::int64_t vocab_size, const std::string& folder, const LoadOptions& options) {
  constexpr std::int64_t kRoundedUp = 128;
  const std::int64_t entries = options.tokenizer_size;
  if (entries > vocab_size) {
    throw Error(fmt::format("the tokenizer has {} entries, but the model has {}", entries, vocab_size),
                folder + ", config.json, field \"vocab_size\"",
                "use the tokenizer of the model's own folder, or a model that was trained with this one");
  }
  if (entries == 0 || vocab_size - entries < kRoundedUp) return "";
  return fmt::format(
      "The tokenizer has {} entries, but the model at {} has {}: if the model was trained with another tokenizer, it "
      "reads other words than were written.\n",
      entries, folder, vocab_size);
}

NamedTensors state_of(const torch::nn::Module& module) {
  NamedTensors state;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) state.emplace_back(item.key(), item.value().detach());
  }
  for (const auto& item : module.named_buffers()) state.emplace_back(item.key(), item.value());
  return state;
}

void save_pretrained(const torch::nn::Module& module, const std::string& config_json, const std::string& folder,
                     std::uint64_t max_shard_bytes) {
  write_weight_files(folder, state_of(module), max_shard_bytes);
  write_file_atomically((std::filesystem::path(folder) / "config.json").string(), config_json);
}

}  // namespace lockstep
