#include "lockstep/tensor/batch.h"

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"

namespace lockstep {

const at::Tensor& batch_field(const Batch& batch, const std::string& name, const std::string& where) {
  const auto found = batch.find(name);
  if (found != batch.end() && found->second.defined()) return found->second;
  std::string list;
  std::vector<std::string> names;
  for (const auto& [each, tensor] : batch) {
    if (!tensor.defined()) continue;
    names.push_back(each);
    list += (list.empty() ? "" : ", ") + each;
  }
  throw Error("the batch has no '" + name + "'" + did_you_mean(name, names),
              where + ", batch with: " + (list.empty() ? "nothing" : list), "give the batch a tensor of that name");
}

}  // namespace lockstep
