#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/safetensors/safetensors.h"
#include "lockstep/safetensors/safetensors_layout.h"

namespace lockstep {
namespace {

// Hugging Face's writer sorts by this list, last entry first, so that every tensor is aligned for its type; then by
// name.
constexpr std::string_view kDtypeOrder[] = {
    "BOOL", "F4",  "F6_E2M3", "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
    "I16",  "U16", "F16",     "BF16",    "I32", "U32", "F32",     "C64",     "F64",     "I64",         "U64"};

struct Item {
  const std::string* name;
  const at::Tensor* tensor;
  std::string dtype;
  std::ptrdiff_t dtype_rank;
};

std::vector<Item> sorted_items(const std::string& path, const NamedTensors& tensors) {
  std::vector<Item> items;
  items.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") throw Error("a tensor may not be named __metadata__", path, "rename it");
    const bool is_plain = tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized();
    const auto dtype = is_plain ? safetensors_dtype(tensor.scalar_type()) : std::nullopt;
    if (!dtype) {
      throw Error(fmt::format("tensor \"{}\" is {}, which safetensors files cannot hold", name,
                              tensor.defined() ? tensor.toString() : "undefined"),
                  path, "convert it to a dense tensor of a plain type first");
    }
    const auto* rank = std::find(std::begin(kDtypeOrder), std::end(kDtypeOrder), *dtype);
    items.push_back({&name, &tensor, *dtype, rank - std::begin(kDtypeOrder)});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.dtype_rank != b.dtype_rank ? a.dtype_rank > b.dtype_rank : *a.name < *b.name;
  });
  std::vector<std::string_view> names;
  for (const auto& item : tensors) names.push_back(item.first);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw Error(fmt::format("two tensors are named \"{}\"", *twice), path, "give each tensor a name of its own");
  }
  return items;
}

std::string header_of(const std::string& path, const std::vector<Item>& items,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string text;
  try {
    if (!metadata.empty()) header["__metadata__"] = metadata;
    text = header.dump();
    text.pop_back();  // the tensors follow; one ordered_json would search all of them linearly for each new key
    std::uint64_t offset = 0;
    for (const Item& item : items) {
      const std::uint64_t end = offset + item.tensor->nbytes();
      if (text.size() > 1) text += ',';
      text +=
          fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                      nlohmann::json(*item.name).dump(), item.dtype, fmt::join(item.tensor->sizes(), ","), offset, end);
      offset = end;
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("a name or a metadata string is not UTF-8: {}", error.what()), path, "rename it");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    throw Error(fmt::format("the header would take {} bytes, but at most {} are allowed", text.size(),
                            kMaxSafetensorsHeaderBytes),
                path, "split the tensors over several files");
  }
  return text;
}

}  // namespace

SafetensorsLayout lay_out_safetensors(const std::string& path, const NamedTensors& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  const std::vector<Item> items = sorted_items(path, tensors);
  const std::string text = header_of(path, items, metadata);
  SafetensorsLayout layout;
  for (unsigned i = 0; i < 8; ++i) layout.prefix += static_cast<char>(std::uint64_t{text.size()} >> (8 * i) & 0xff);
  layout.prefix += text;
  for (const Item& item : items) {
    layout.tensors.emplace_back(*item.name, *item.tensor);
    layout.data_bytes += item.tensor->nbytes();
  }
  return layout;
}

SafetensorsStream::SafetensorsStream(const std::string& path, const NamedTensors& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  SafetensorsLayout layout = lay_out_safetensors(path, tensors, metadata);
  prefix_ = std::move(layout.prefix);
  data_bytes_ = layout.data_bytes;
  for (auto& item : layout.tensors) tensors_.push_back(std::move(item.second));
}

void SafetensorsStream::write(const std::function<void(std::string_view)>& sink) const {
  sink(prefix_);
  for (const at::Tensor& tensor : tensors_) {
    const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
    sink({static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
  }
}

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const SafetensorsStream stream(path, tensors, metadata);
  AtomicFile file(path);
  file.reserve(stream.size_bytes());
  stream.write([&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace lockstep
