// The results of `lockstep inspect` as text for people.
#include <fmt/format.h>

#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/size_text.h"
#include "tools/lockstep/inspect/inspection.h"

namespace lockstep {
namespace {

std::string shape_of(const Inspection& shape) {
  std::string out = "[";
  for (const auto& size : shape) out += (out.size() > 1 ? ", " : "") + size.dump();
  return out + "]";
}

std::string plain(const Inspection& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// An object as "a 3, b 5".
std::string pairs(const Inspection& object) {
  std::string out;
  for (const auto& [key, value] : object.items()) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", key.empty() ? "(empty)" : key, plain(value));
  }
  return out;
}

std::size_t widest(const Inspection& rows, const char* field) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, plain(row[field]).size());
  return width;
}

std::string weights_text(const Inspection& found) {
  std::string out =
      fmt::format("{}: {} tensors, {} elements, {}\n", found["path"].get<std::string>(), found["tensors"].size(),
                  found["elements"].get<std::uint64_t>(), size_text(found["bytes"].get<std::uint64_t>()));
  if (!found["dtypes"].empty()) out += fmt::format("  dtypes: {}\n", pairs(found["dtypes"]));
  for (const auto& [key, value] : found["metadata"].items()) out += fmt::format("  {}: {}\n", key, plain(value));
  if (found["files"].size() > 1) {
    for (const auto& file : found["files"]) {
      out += fmt::format("  {}: {} tensors, {}\n", file["name"].get<std::string>(), file["tensors"].get<std::size_t>(),
                         size_text(file["bytes"].get<std::uint64_t>()));
    }
  }
  const std::size_t width = widest(found["tensors"], "name");
  for (const auto& tensor : found["tensors"]) {
    out += fmt::format("  {:{}}  {:5} {}\n", tensor["name"].get<std::string>(), width,
                       tensor["dtype"].get<std::string>(), shape_of(tensor["shape"]));
  }
  return out;
}

std::string config_text(const Inspection& found) {
  std::string out = fmt::format("{}: model type {}\n", found["path"].get<std::string>(), plain(found["model_type"]));
  for (const auto& name : found["architectures"]) out += fmt::format("  architecture: {}\n", plain(name));
  if (found.contains("labels")) {
    std::string labels;
    for (const auto& label : found["labels"]) labels += (labels.empty() ? "" : ", ") + plain(label);
    out += fmt::format("  labels: {}\n", labels);
  }
  for (const auto& [key, value] : found["settings"].items()) {
    if (key != "model_type") out += fmt::format("  {}: {}\n", key, plain(value));
  }
  return out;
}

std::string tokenizer_text(const Inspection& found) {
  std::string out = fmt::format("{}: a tokenizer of {} ids\n", found["path"].get<std::string>(),
                                found["vocab_size"].get<std::int64_t>());
  for (const auto& [name, token] : found["special_tokens"].items()) {
    out += fmt::format("  {}: {} ({})\n", name, token["token"].get<std::string>(),
                       token.contains("id") ? token["id"].dump() : "not in the vocabulary");
  }
  if (found.contains("model_max_length")) out += fmt::format("  longest input: {}\n", plain(found["model_max_length"]));
  return out;
}

std::string model_text(const Inspection& found) {
  std::string out;
  if (found.contains("config")) out += config_text(found["config"]);
  if (found.contains("weights")) out += weights_text(found["weights"]);
  if (found.contains("tokenizer")) out += tokenizer_text(found["tokenizer"]);
  for (const auto& warning : found.value("warnings", Inspection::array())) {
    out += "warning: " + warning.get<std::string>() + "\n";
  }
  for (const auto& problem : found["problems"]) out += "problem: " + problem.get<std::string>() + "\n";
  return out;
}

std::string checkpoint_text(const Inspection& found) {
  std::string out = fmt::format("{}: checkpoint of step {}", found["path"].get<std::string>(), plain(found["step"]));
  if (found.contains("max_steps")) out += fmt::format(" of {}", plain(found["max_steps"]));
  if (found.contains("epoch")) out += fmt::format(", epoch {:.2f}", found["epoch"].get<double>());
  out += fmt::format(", by {} rank(s), {}, every byte as it was written\n", plain(found["world_size"]),
                     size_text(found["bytes"].get<std::uint64_t>()));
  if (found.contains("best_metric")) {
    out += fmt::format("  best metric: {}{}\n", plain(found["best_metric"]),
                       found.contains("best_step") ? fmt::format(" (step {})", plain(found["best_step"])) : "");
  }
  if (found.contains("last_log")) out += fmt::format("  last log: {}\n", pairs(found["last_log"]));
  if (!found.contains("weights")) return out;
  for (const auto& file : found["files"]) {
    out += fmt::format("  {}  {}\n", file["name"].get<std::string>(), size_text(file["bytes"].get<std::uint64_t>()));
  }
  return out + weights_text(found["weights"]);
}

std::string checkpoints_text(const Inspection& found) {
  std::string out;
  for (const auto& checkpoint : found["checkpoints"]) out += checkpoint_text(checkpoint);
  for (const auto& problem : found["problems"]) out += "problem: " + problem.get<std::string>() + "\n";
  return out;
}

std::string rows_text(const Inspection& found) {
  std::string out = fmt::format("{}: {}, {} rows, {}\n", found["path"].get<std::string>(), plain(found["kind"]),
                                found["rows"].get<std::int64_t>(), size_text(found["bytes"].get<std::uint64_t>()));
  if (found.contains("contexts")) out += fmt::format("  {} different contexts\n", plain(found["contexts"]));
  const std::size_t width = widest(found["columns"], "name");
  for (const auto& column : found["columns"]) {
    if (column.contains("type")) {
      out += fmt::format("  {:{}}  {}\n", column["name"].get<std::string>(), width, plain(column["type"]));
      continue;
    }
    out += fmt::format("  {:{}}  {:.1f} bytes on average, {} at most", column["name"].get<std::string>(), width,
                       column["mean_bytes"].get<double>(), column["longest_bytes"].get<std::size_t>());
    if (column["empty"].get<std::int64_t>() > 0) out += fmt::format(", {} empty", plain(column["empty"]));
    if (column.contains("min")) {
      out += fmt::format(", {:g} to {:g}", column["min"].get<double>(), column["max"].get<double>());
    }
    if (column.contains("values")) out += ": " + pairs(column["values"]);
    out += "\n";
  }
  return out;
}

std::string idx_text(const Inspection& found) {
  std::string out = fmt::format("{}: IDX, {} {}, {}\n", found["path"].get<std::string>(), plain(found["dtype"]),
                                shape_of(found["shape"]), size_text(found["bytes"].get<std::uint64_t>()));
  if (found.contains("min")) {
    out += fmt::format("  values: {:g} to {:g}\n", found["min"].get<double>(), found["max"].get<double>());
  }
  if (found.contains("labels")) out += fmt::format("  labels: {}\n", pairs(found["labels"]));
  return out;
}

std::string json_text(const Inspection& found) {
  std::string out =
      fmt::format("{}: JSON, {} with {} entries, {}\n", found["path"].get<std::string>(), plain(found["type"]),
                  plain(found["entries"]), size_text(found["bytes"].get<std::uint64_t>()));
  std::string keys;
  for (const auto& key : found["keys"]) keys += (keys.empty() ? "" : ", ") + key.get<std::string>();
  if (!keys.empty()) out += fmt::format("  keys: {}{}\n", keys, found["keys"].size() < found["entries"] ? ", …" : "");
  return out;
}

// Names and values are from the file, so each is shown in one line, and a long one is cut.
Inspection printable_copy(const Inspection& found) {
  if (found.is_string()) return printable(found.get_ref<const std::string&>());
  if (!found.is_structured()) return found;
  Inspection copy = found.is_array() ? Inspection::array() : Inspection::object();
  for (const auto& [key, value] : found.items()) {
    if (found.is_array()) {
      copy.push_back(printable_copy(value));
    } else {
      copy[printable(key)] = printable_copy(value);
    }
  }
  return copy;
}

std::string text_of(const Inspection& found) {
  const auto kind = found["kind"].get<std::string>();
  if (kind == "safetensors") return weights_text(found);
  if (kind == "config") return config_text(found);
  if (kind == "tokenizer") return tokenizer_text(found);
  if (kind == "model") return model_text(found);
  if (kind == "checkpoint") return checkpoint_text(found);
  if (kind == "checkpoints") return checkpoints_text(found);
  if (kind == "idx") return idx_text(found);
  if (kind == "json") return json_text(found);
  if (kind != "folder") return rows_text(found);
  std::string out;
  for (const auto& file : found["files"]) out += text_of(file);
  return out;
}

}  // namespace

std::string inspection_text(const Inspection& found) { return text_of(printable_copy(found)); }

}  // namespace lockstep
