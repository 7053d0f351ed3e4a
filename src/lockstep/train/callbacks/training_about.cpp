#include "lockstep/train/callbacks/training_about.h"

#include <torch/nn/module.h>
#include <torch/version.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/processor/processor_name.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/text/hidden_secrets.h"
#include "lockstep/version.h"

namespace lockstep {
namespace {

constexpr std::size_t kLongestCommand = 8192;

// The command of the program that lockstep starts for what needs LibTorch is `lockstep`, too.
std::vector<std::string> own_words() {
  std::vector<std::string> words;
  try {
    std::istringstream text(read_file("/proc/self/cmdline"));
    for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  } catch (const Error&) {
  }
  if (words.empty()) return words;
  words[0] = words[0].substr(words[0].rfind('/') + 1);
  if (words[0] == "lockstep-torch") words[0] = "lockstep";
  return words;
}

std::string quoted_for_shell(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string name_of_model(TrainableModel& model) {
  const auto files = model.files();
  if (const auto config = files.find("config.json"); config != files.end()) {
    const nlohmann::json json = nlohmann::json::parse(config->second, nullptr, false);
    const nlohmann::json names = json.is_object() ? json.value("architectures", nlohmann::json()) : nlohmann::json();
    if (names.is_array() && !names.empty() && names[0].is_string()) return names[0].get<std::string>();
    const nlohmann::json type = json.is_object() ? json.value("model_type", nlohmann::json()) : nlohmann::json();
    if (type.is_string()) return type.get<std::string>();
  }
  const auto module = model.module();
  return module ? module->name() : "TorchScript";
}

void add_model(TrainableModel& model, nlohmann::json& about) {
  std::int64_t all = 0, trained = 0;
  for (const NamedTensor& parameter : model.tensors().parameters) {
    all += parameter.tensor.numel();
    trained += parameter.tensor.requires_grad() ? parameter.tensor.numel() : 0;
  }
  about["model"] = name_of_model(model);
  about["parameters"] = all;
  about["trained_parameters"] = trained;
}

void add_data(const char* prefix, const Dataset* data, const std::string& file, nlohmann::json& about) {
  if (data == nullptr) return;
  about[prefix + std::string("_samples")] = data->size();
  if (!file.empty()) about[prefix + std::string("_file")] = file;
}

// Where nothing was asked for, arguments have the values of TrainingArguments.
nlohmann::json changed_arguments(const TrainingArguments& args) {
  const nlohmann::json usual = to_json(TrainingArguments()), mine = to_json(args);
  nlohmann::json changed = nlohmann::json::object();
  for (const auto& [name, value] : mine.items()) {
    if (value != usual.value(name, nlohmann::json())) changed[name] = value;
  }
  return changed;
}

std::int64_t hosts_of(const Membership& membership) {
  std::set<std::string> hosts;
  for (const Peer& peer : membership.peers) hosts.insert(peer.host_id);
  return static_cast<std::int64_t>(hosts.size());
}

}  // namespace

std::string shown_command(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : with_hidden_secrets(words)) {
    text += (text.empty() ? "" : " ") + quoted_for_shell(word);
    if (text.size() > kLongestCommand) return text.substr(0, kLongestCommand) + "...";
  }
  return text;
}

nlohmann::json training_about(const TrainerContext& context) {
  const TrainerOptions& options = context.options;
  nlohmann::json about = nlohmann::json::object();
  if (options.model) add_model(*options.model, about);
  add_data("train", options.train_dataset.get(), options.train_file, about);
  add_data("eval", options.eval_dataset.get(), options.eval_file, about);
  about["command"] = shown_command(own_words());
  about["changed_arguments"] = changed_arguments(context.args());
  about["host"] = host_name();
  about["processor"] = processor_name();
  about["cores"] = available_cores();
  about["lockstep"] = LOCKSTEP_VERSION;
  about["libtorch"] = TORCH_VERSION;
  if (!context.group) return about;
  about["engine"] = context.group->engine();
  about["hosts"] = hosts_of(context.group->membership());
  return about;
}

}  // namespace lockstep
