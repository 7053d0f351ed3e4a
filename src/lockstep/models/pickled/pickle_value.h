#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

struct PickleValue;

/// A list, a tuple or a dictionary.
struct PickleContainer {
  int depth = 0;           ///< of containers inside it
  bool is_inside = false;  ///< it is an item of another one: nothing is added to it any more, so depths stay true
};
/// A list or a tuple.
struct PickleSequence : PickleContainer {
  std::vector<PickleValue> items;
};
/// A dictionary, in the order of its insertions.
struct PickleDict : PickleContainer {
  std::vector<std::pair<PickleValue, PickleValue>> items;
};
/// A name of Python's, such as "torch._utils._rebuild_tensor_v2". It is compared and never called.
struct PickleGlobal {
  std::string name;
};
/// PyTorch's mention of a storage, whose bytes lie elsewhere.
struct PickledStorage {
  std::string type;  ///< "FloatStorage"
  std::string key;
  std::int64_t elements = 0;
};
/// A tensor over a storage.
struct PickledTensor {
  PickledStorage storage;
  std::int64_t offset = 0;  ///< in elements, as the strides
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

/// What a pickle can hold here. Containers are shared, as in Python.
struct PickleValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, PickleGlobal, PickledStorage,
               std::shared_ptr<const PickledTensor>, std::shared_ptr<PickleSequence>, std::shared_ptr<PickleDict>>
      content;

  template <typename Type>
  const Type* as() const {
    return std::get_if<Type>(&content);
  }
};

}  // namespace lockstep
