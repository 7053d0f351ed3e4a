// `lockstep inspect` for weights, model folders and tokenizers.
#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/inspect/inspection.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::uint64_t elements_of(const SafetensorsEntry& entry) {
  std::uint64_t count = 1;  // the header was checked, so this fits the file
  for (const std::int64_t size : entry.shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

void add_tensors(const SafetensorsFile& file, Inspection& out) {
  for (const SafetensorsEntry& entry : file.entries()) {
    out["tensors"].push_back({{"name", entry.name},
                              {"dtype", entry.dtype},
                              {"shape", entry.shape},
                              {"bytes", entry.bytes()},
                              {"file", fs::path(file.path()).filename().string()}});
    out["elements"] = out["elements"].get<std::uint64_t>() + elements_of(entry);
    auto& dtypes = out["dtypes"];
    dtypes[entry.dtype] = dtypes.value(entry.dtype, std::uint64_t{0}) + 1;
  }
}

bool holds_tokenizer(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json", "encoder.json"}) {
    if (fs::exists(folder / name)) return true;
  }
  return false;
}

bool holds_weights(const fs::path& folder) {
  return fs::exists(folder / "model.safetensors") || fs::exists(folder / "model.safetensors.index.json");
}

void check_vocabulary(Inspection& out) {
  if (!out.contains("tokenizer") || !out.contains("config")) return;
  const auto known = out["tokenizer"]["vocab_size"].get<std::int64_t>();
  const auto& settings = out["config"]["settings"];
  const auto embedded = settings.find("vocab_size");
  if (embedded == settings.end() || !embedded->is_number_integer()) return;
  if (known <= embedded->get<std::int64_t>()) return;
  out["problems"].push_back(fmt::format("the tokenizer has ids up to {}, but the model embeds only {} (vocab_size)",
                                        known - 1, embedded->get<std::int64_t>()));
}

// Reads the tied tensors of a model that scores words, if the file has both. They are a warning,
// because the model is loaded all the same.
void check_tied_tensors(const std::string& folder, Inspection& out) {
  if (!out.contains("weights") || !out.contains("config")) return;
  std::string text;
  try {
    text = tied_tensors_that_differ(folder);
  } catch (const Error&) {
    return;  // no model that Lockstep can build; loading says why
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out["warnings"].push_back(line);
}

}  // namespace

Inspection inspect_weights(const std::string& path) {
  const WeightFiles weights(path);
  Inspection out{{"kind", "safetensors"},
                 {"path", weights.path()},
                 {"bytes", 0},
                 {"elements", 0},
                 {"metadata", Inspection::object()},
                 {"dtypes", Inspection::object()},
                 {"files", Inspection::array()},
                 {"tensors", Inspection::array()}};
  std::uint64_t bytes = 0;
  for (const SafetensorsFile& file : weights.files()) {
    const std::uint64_t file_bytes = fs::file_size(file.path());
    bytes += file_bytes;
    out["files"].push_back({{"name", fs::path(file.path()).filename().string()},
                            {"bytes", file_bytes},
                            {"tensors", file.entries().size()}});
    for (const auto& [key, value] : file.metadata()) out["metadata"][key] = value;
    add_tensors(file, out);
  }
  out["bytes"] = bytes;
  return out;
}

Inspection inspect_model_config(const std::string& path) {
  const ConfigFile config(path);
  Inspection out{{"kind", "config"}, {"path", config.path()}, {"bytes", fs::file_size(config.path())}};
  out["model_type"] = config.text({"model_type"}, "");
  const auto architectures = config.json().find("architectures");
  out["architectures"] = architectures == config.json().end() ? Inspection::array() : Inspection(*architectures);
  const std::vector<std::string> labels = config.labels();
  if (!labels.empty()) out["labels"] = labels;
  Inspection settings = Inspection::object();
  for (const auto& [key, value] : config.json().items()) {
    if (value.is_number() || value.is_boolean() || value.is_string()) settings[key] = value;
  }
  out["settings"] = std::move(settings);
  return out;
}

Inspection inspect_tokenizer(const std::string& path) {
  const Tokenizer tokenizer = fs::is_directory(path) ? load_tokenizer(path) : load_tokenizer_json(path);
  Inspection out{{"kind", "tokenizer"}, {"path", path}, {"vocab_size", tokenizer.vocab_size()}};
  Inspection special = Inspection::object();
  const SpecialTokens& tokens = tokenizer.special_tokens();
  for (const auto& [name, token] :
       {std::pair("unk", tokens.unk), std::pair("pad", tokens.pad), std::pair("cls", tokens.cls),
        std::pair("sep", tokens.sep), std::pair("mask", tokens.mask), std::pair("bos", tokens.bos),
        std::pair("eos", tokens.eos)}) {
    if (!token) continue;
    special[name] = {{"token", *token}};
    if (const auto id = tokenizer.token_to_id(*token)) special[name]["id"] = *id;
  }
  out["special_tokens"] = std::move(special);
  if (const auto longest = tokenizer.model_max_length()) out["model_max_length"] = *longest;
  return out;
}

Inspection inspect_model_folder(const std::string& folder) {
  Inspection out{{"kind", "model"}, {"path", folder}, {"problems", Inspection::array()}};
  if (fs::exists(fs::path(folder) / "config.json")) {
    out["config"] = inspect_model_config(folder);
  } else {
    out["problems"].push_back("there is no config.json: a model cannot be built from this folder alone");
  }
  if (holds_weights(folder)) {
    out["weights"] = inspect_weights(folder);
  } else {
    out["problems"].push_back("there are no weights: neither model.safetensors nor model.safetensors.index.json");
  }
  if (holds_tokenizer(folder)) out["tokenizer"] = inspect_tokenizer(folder);
  check_vocabulary(out);
  check_tied_tensors(folder, out);
  return out;
}

}  // namespace lockstep
