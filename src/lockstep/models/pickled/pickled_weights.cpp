#include "lockstep/models/pickled/pickled_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/models/pickled/pickle_machine.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr const char* kDamaged = "copy or download the file again";
constexpr const char* kPickled = "pytorch_model.bin";

// The bytes of a storage, and whatever keeps them.
using FindStorage = std::function<at::Tensor(const PickledStorage& storage, at::ScalarType type)>;

std::optional<at::ScalarType> type_of_storage(const std::string& name) {
  static const std::map<std::string, at::ScalarType> types{
      {"FloatStorage", at::kFloat},   {"HalfStorage", at::kHalf}, {"BFloat16Storage", at::kBFloat16},
      {"DoubleStorage", at::kDouble}, {"LongStorage", at::kLong}, {"IntStorage", at::kInt},
      {"ShortStorage", at::kShort},   {"CharStorage", at::kChar}, {"ByteStorage", at::kByte},
      {"BoolStorage", at::kBool}};
  const auto found = types.find(name);
  return found == types.end() ? std::nullopt : std::optional<at::ScalarType>(found->second);
}

// Whether all elements of the tensor lie in its storage.
bool fits(const PickledTensor& tensor) {
  std::int64_t last = tensor.offset;
  if (tensor.offset < 0 || tensor.sizes.size() != tensor.strides.size()) return false;
  bool is_empty = false;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    std::int64_t reach = 0;
    if (tensor.sizes[i] < 0 || tensor.strides[i] < 0) return false;
    is_empty = is_empty || tensor.sizes[i] == 0;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return is_empty || last < tensor.storage.elements;
}

NamedTensors tensors_in(const PickleValue& value, const std::string& path, const FindStorage& find) {
  const auto* dict = value.as<std::shared_ptr<PickleDict>>();
  if (dict == nullptr) {
    throw Error("the file does not contain a dictionary of tensors", path,
                "save one: torch.save(model.state_dict(), path)");
  }
  NamedTensors tensors;
  for (const auto& [key, item] : (*dict)->items) {
    const auto* name = key.as<std::string>();
    const auto* pickled = item.as<std::shared_ptr<const PickledTensor>>();
    if (name == nullptr || pickled == nullptr) {
      throw Error(fmt::format("\"{}\" is not a tensor", name == nullptr ? "an entry" : printable(*name)), path,
                  "save a dictionary of only tensors: torch.save(model.state_dict(), path)");
    }
    const PickledTensor& tensor = **pickled;
    const auto type = type_of_storage(tensor.storage.type);
    if (!type) throw Error(tensor.storage.type + " is not read", path, "convert the weights to float32 in Python");
    if (!fits(tensor)) throw Error("\"" + printable(*name) + "\" reaches beyond its storage", path, kDamaged);
    tensors.emplace_back(*name, find(tensor.storage, *type).as_strided(tensor.sizes, tensor.strides, tensor.offset));
  }
  return tensors;
}

[[noreturn]] void refuse_length(const PickledStorage& storage, std::uint64_t bytes, const std::string& path) {
  throw Error(fmt::format("storage {} should have {} elements, but has {} bytes", printable(storage.key),
                          storage.elements, bytes),
              path, kDamaged);
}

bool has_length(const PickledStorage& storage, at::ScalarType type, std::uint64_t bytes) {
  const auto size = static_cast<std::uint64_t>(c10::elementSize(type));
  return storage.elements >= 0 && static_cast<std::uint64_t>(storage.elements) <= kMostBytes &&
         static_cast<std::uint64_t>(storage.elements) * size == bytes;
}

// PyTorch 1.6 and later: a zip archive with data.pkl, and one entry for each storage.
NamedTensors read_archive(const std::string& path) {
  try {
    caffe2::serialize::PyTorchStreamReader archive(path);
    const auto [pickle, pickle_bytes] = archive.getRecord("data.pkl");
    std::map<std::string, at::Tensor> storages;
    const FindStorage find = [&](const PickledStorage& storage, at::ScalarType type) {
      at::Tensor& known = storages[storage.key];
      if (known.defined()) {
        if (known.scalar_type() != type || known.numel() != storage.elements)
          refuse_length(storage, known.nbytes(), path);
        return known;
      }
      if (storage.elements == 0) return known = at::empty({0}, type);
      auto [data, bytes] = archive.getRecord("data/" + storage.key);
      if (!has_length(storage, type, bytes)) refuse_length(storage, bytes, path);
      const auto kept = std::make_shared<at::DataPtr>(std::move(data));
      return known = at::from_blob(
                 kept->get(), {storage.elements}, [kept](void*) {}, type);
    };
    std::size_t begin = 0;
    const std::string_view bytes(static_cast<const char*>(pickle.get()), pickle_bytes);
    return tensors_in(read_pickle(bytes, begin, path), path, find);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw Error("the archive cannot be read: " + printable(what.substr(0, what.find('\n'))), path, kDamaged);
  }
}

// Before PyTorch 1.6: five pickles (a magic number, a version, sizes of the system, the dictionary, the storages'
// keys), then each storage: its length as an int64 and its elements.
class OldFile {
 public:
  explicit OldFile(const std::string& path) : path_(path), bytes_(read_regular_file(path, kMostBytes)) {}

  NamedTensors read() {
    for (int i = 0; i < 3; ++i) read_pickle(bytes_, at_, path_);
    const PickleValue weights = read_pickle(bytes_, at_, path_);
    const PickleValue keys = read_pickle(bytes_, at_, path_);
    const auto* list = keys.as<std::shared_ptr<PickleSequence>>();
    if (list == nullptr) throw Error("the file has no list of storages", path_, kDamaged);
    note_types(weights);
    for (const PickleValue& key : (*list)->items) {
      const auto* name = key.as<std::string>();
      if (name == nullptr) throw Error("the file has no list of storages", path_, kDamaged);
      read_storage(*name);
    }
    return tensors_in(weights, path_, [this](const PickledStorage& storage, at::ScalarType type) {
      const auto found = storages_.find(storage.key);
      if (found == storages_.end() || found->second.scalar_type() != type ||
          found->second.numel() != storage.elements) {
        refuse_length(storage, 0, path_);
      }
      return found->second;
    });
  }

 private:
  void note_types(const PickleValue& weights) {
    const auto* dict = weights.as<std::shared_ptr<PickleDict>>();
    if (dict == nullptr) return;
    for (const auto& item : (*dict)->items) {
      const auto* tensor = item.second.as<std::shared_ptr<const PickledTensor>>();
      const auto type = tensor == nullptr ? std::nullopt : type_of_storage((*tensor)->storage.type);
      if (type) types_[(*tensor)->storage.key] = *type;
    }
  }

  void read_storage(const std::string& key) {
    const auto type = types_.find(key);
    std::int64_t elements = 0;
    if (type == types_.end() || bytes_.size() - at_ < sizeof(elements)) {
      throw Error("storage " + printable(key) + " is of no tensor, or cut off", path_, kDamaged);
    }
    std::memcpy(&elements, bytes_.data() + at_, sizeof(elements));
    at_ += sizeof(elements);
    const auto room = static_cast<std::int64_t>((bytes_.size() - at_) / c10::elementSize(type->second));
    if (elements < 0 || elements > room) {
      throw Error(
          fmt::format("storage {} has {} elements, but the file has room for {}", printable(key), elements, room),
          path_, kDamaged);
    }
    at::Tensor storage = at::empty({elements}, type->second);
    std::memcpy(storage.data_ptr(), bytes_.data() + at_, storage.nbytes());
    at_ += storage.nbytes();
    storages_[key] = storage;
  }

  const std::string& path_;
  std::string bytes_;
  std::size_t at_ = 0;
  std::map<std::string, at::ScalarType> types_;
  std::map<std::string, at::Tensor> storages_;
};

std::set<std::string> files_of_index(const std::string& path) {
  constexpr std::uint64_t kMostIndexBytes = std::uint64_t{256} << 20;
  const auto index = read_json_object(path, kMostIndexBytes);
  const auto map = index->find("weight_map");
  std::set<std::string> names;
  if (map == index->end() || !map->is_object()) throw Error("the index has no weight_map", path, kDamaged);
  for (const auto& item : map->items()) {
    const std::string name = item.value().is_string() ? item.value().get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos) {
      throw Error("\"" + printable(name) + "\" is not a file name beside the index", path, kDamaged);
    }
    names.insert(name);
  }
  return names;
}

}  // namespace

NamedTensors read_pickled_weights(const std::string& path) {
  constexpr std::string_view kZip = "PK\x03\x04";
  std::array<char, 4> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  if (std::string_view(first.data(), first.size()) == kZip) return read_archive(path);
  return OldFile(path).read();
}

std::int64_t convert_pickled_weights(const std::string& folder) {
  namespace fs = std::filesystem;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (!fs::exists(fs::path(folder) / name)) continue;
    throw Error(std::string("there is a ") + name + " already", folder, "use it, or remove it first");
  }
  const std::string single = folder + "/" + kPickled;
  const std::string index = single + ".index.json";
  if (!fs::exists(single) && !fs::exists(index)) {
    throw Error(std::string("there is no ") + kPickled, folder, "name the folder of a model that PyTorch saved");
  }
  NamedTensors all;
  const std::set<std::string> names = fs::exists(single) ? std::set<std::string>{kPickled} : files_of_index(index);
  for (const std::string& name : names) {
    for (auto& item : read_pickled_weights(folder + "/" + name)) all.push_back(std::move(item));
  }
  write_weight_files(folder, all);
  return static_cast<std::int64_t>(all.size());
}

}  // namespace lockstep
