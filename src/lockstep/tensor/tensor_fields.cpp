#include "lockstep/detail/tensor/tensor_fields.h"

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"

namespace lockstep {

const at::Tensor& TensorFields::at(const std::string& name) const {
  const auto found = find(name);
  if (found != end()) return found->second;
  std::string list;
  std::vector<std::string> names;
  for (const auto& field : *this) {
    names.push_back(field.first);
    list += (list.empty() ? "" : ", ") + field.first;
  }
  throw Error("there is no field '" + name + "'" + did_you_mean(name, names),
              "a batch or a sample with the fields: " + (list.empty() ? "none" : list),
              "name an existing field, or let the dataset or the collator add it");
}

at::Tensor& TensorFields::at(const std::string& name) {
  return const_cast<at::Tensor&>(static_cast<const TensorFields&>(*this).at(name));
}

}  // namespace lockstep
