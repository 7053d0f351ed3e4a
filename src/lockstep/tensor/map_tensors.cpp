#include "lockstep/detail/tensor/map_tensors.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

c10::IValue replace_one(const c10::IValue& value, const std::vector<at::Tensor>& tensors, std::size_t& position) {
  if (value.isTensor()) return tensors[position++];
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (std::size_t i = 0; i < value.toTensorList().size(); ++i) list.push_back(tensors[position++]);
    return list;
  }
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const auto& element : value.toTupleRef().elements()) {
      elements.push_back(replace_one(element, tensors, position));
    }
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isList()) {
    const auto list = value.toList();
    c10::impl::GenericList copy(list.elementType());
    for (std::size_t i = 0; i < list.size(); ++i) copy.push_back(replace_one(list.get(i), tensors, position));
    return copy;
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    c10::impl::GenericDict copy(dict.keyType(), dict.valueType());
    for (const auto& entry : dict) copy.insert(entry.key(), replace_one(entry.value(), tensors, position));
    return copy;
  }
  return value;
}

}  // namespace

c10::IValue replace_script_tensors(const c10::IValue& value, const std::vector<at::Tensor>& tensors) {
  std::size_t position = 0;
  c10::IValue replaced = replace_one(value, tensors, position);
  if (position != tensors.size()) {
    throw Error("a TorchScript value holds tensors in an object that cannot be scattered", value.tagKind(),
                "use tensors, tuples, lists and dicts");
  }
  return replaced;
}

}  // namespace lockstep
