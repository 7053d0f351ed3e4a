#include "lockstep/models/pickled/pickled_names.h"

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

using Sequence = std::shared_ptr<PickleSequence>;
using Values = std::vector<PickleValue>;

constexpr const char* kOrderedDict = "collections.OrderedDict";
constexpr const char* kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";

std::vector<std::int64_t> numbers(const PickleValue& value, const PickleBytes& at) {
  const Sequence* list = value.as<Sequence>();
  at.require(list != nullptr, "the pickle has a tensor without sizes");
  std::vector<std::int64_t> all;
  for (const PickleValue& item : (*list)->items) {
    const auto* number = item.as<std::int64_t>();
    at.require(number != nullptr, "the pickle has a tensor without sizes");
    all.push_back(*number);
  }
  return all;
}

// (storage, offset, sizes, strides, requires_grad, hooks, ...)
PickleValue rebuilt_tensor(const Values& arguments, const PickleBytes& at) {
  at.require(arguments.size() >= 4, "the pickle has a tensor without sizes");
  const auto* storage = arguments[0].as<PickledStorage>();
  const auto* offset = arguments[1].as<std::int64_t>();
  at.require(storage != nullptr && offset != nullptr, "the pickle has a tensor without a storage");
  return {std::make_shared<const PickledTensor>(
      PickledTensor{*storage, *offset, numbers(arguments[2], at), numbers(arguments[3], at)})};
}

}  // namespace

PickleGlobal known_global(const std::string& module, const std::string& name, const PickleBytes& at) {
  const std::string whole = module + "." + name;
  const bool is_storage = module == "torch" && ends_with(name, "Storage");
  const bool is_known = is_storage || whole == kOrderedDict || whole == kRebuildTensor || whole == kRebuildParameter;
  if (!is_known) at.refuse("the pickle names " + printable(whole));
  return {whole};
}

// ("storage", torch.FloatStorage, key, location, elements), and in old files a view, which is None.
PickledStorage storage_of_id(const PickleValue& id, const PickleBytes& at) {
  const Sequence* parts = id.as<Sequence>();
  at.require(parts != nullptr && (*parts)->items.size() >= 5, "the pickle has an unknown persistent id");
  const Values& items = (*parts)->items;
  const auto* kind = items[0].as<std::string>();
  const auto* type = items[1].as<PickleGlobal>();
  const auto* key = items[2].as<std::string>();
  const auto* elements = items[4].as<std::int64_t>();
  at.require(kind != nullptr && *kind == "storage" && type != nullptr && key != nullptr && elements != nullptr,
             "the pickle has an unknown persistent id");
  at.require(items.size() == 5 || items[5].as<std::monostate>() != nullptr, "the pickle has a view of a storage");
  return {type->name.substr(type->name.rfind('.') + 1), *key, *elements};
}

PickleValue result_of_call(const PickleValue& function, const PickleValue& arguments, const PickleBytes& at) {
  const auto* name = function.as<PickleGlobal>();
  const Sequence* given = arguments.as<Sequence>();
  at.require(name != nullptr && given != nullptr, "the pickle calls something");
  const Values& items = (*given)->items;
  if (name->name == kOrderedDict && items.empty()) return {std::make_shared<PickleDict>()};
  if (name->name == kRebuildTensor) return rebuilt_tensor(items, at);
  if (name->name == kRebuildParameter && !items.empty()) return items.front();
  at.refuse("the pickle calls " + printable(name->name));
}

}  // namespace lockstep
