#include "lockstep/parallel/reducer/parameter_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace lockstep {
namespace {

const char* const kWrapAgain =
    "convert, move, load and build the module first, on every rank, and then wrap it; after a change like this one, "
    "wrap it again and give the new parameters to a new optimizer";

ParameterChange change_after_wrapping(const std::string& name, const std::string& how) {
  return {fmt::format("parameter \"{}\" {} after the module was wrapped", name, how), kWrapAgain};
}

std::string shape_of(at::IntArrayRef sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

}  // namespace

std::vector<NamedTensor> without(std::vector<NamedTensor> tensors, const std::vector<std::string>& ignored) {
  if (ignored.empty()) return tensors;
  const std::unordered_set<std::string> names(ignored.begin(), ignored.end());
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(),
                               [&](const NamedTensor& entry) { return names.count(entry.name) > 0; }),
                tensors.end());
  return tensors;
}

ParameterWatch::ParameterWatch(const ModuleTensors& module, const std::vector<std::string>& ignored)
    : module_(module), ignored_(ignored) {
  for (const auto& entry : module.parameters) {
    watched_.push_back({entry.name, entry.tensor, entry.tensor.requires_grad(), entry.tensor.scalar_type(),
                        entry.tensor.device(), entry.tensor.sizes().vec()});
  }
  module_.list_places(places_);
}

std::optional<ParameterChange> ParameterWatch::look() {
  for (const Watched& watched : watched_) {
    if (auto change = change_of(watched)) return change;
  }
  module_.list_places(now_);
  if (now_ == places_) return {};
  return change_of_places();
}

// Cheap as long as nothing has changed.
std::optional<ParameterChange> ParameterWatch::change_of(const Watched& watched) {
  const at::Tensor& tensor = watched.tensor;
  if (!watched.trained) {
    if (!tensor.requires_grad()) return {};
    return ParameterChange{
        fmt::format("parameter \"{}\" was frozen when the module was wrapped and is not any more", watched.name),
        "wrap the module again after unfreezing, so that its gradients are synchronised"};
  }
  if (tensor.scalar_type() != watched.dtype) {
    return change_after_wrapping(watched.name,
                                 fmt::format("was converted from {} to {} (by module->to, or torch::load)",
                                             c10::toString(watched.dtype), c10::toString(tensor.scalar_type())));
  }
  if (tensor.device() != watched.device) {
    return change_after_wrapping(
        watched.name,
        fmt::format("was moved from {} to {} (by module->to, or by torch::load of a file that was saved there)",
                    watched.device.str(), tensor.device().str()));
  }
  if (tensor.sizes() != at::IntArrayRef(watched.sizes)) {
    return change_after_wrapping(
        watched.name, fmt::format("got the shape {} instead of {} (by torch::load of another model's file, or "
                                  "set_data)",
                                  shape_of(tensor.sizes()), shape_of(watched.sizes)));
  }
  if (!tensor.is_leaf()) {
    return change_after_wrapping(watched.name, "was made the result of a computation (an in-place operation)");
  }
  return {};
}

std::optional<ParameterChange> ParameterWatch::change_of_places() {
  const std::vector<NamedTensor> current = without(module_.current_parameters(), ignored_);
  std::unordered_set<const c10::TensorImpl*> here, known;
  std::unordered_set<std::string> names;
  for (const auto& entry : current) {
    here.insert(entry.tensor.unsafeGetTensorImpl());
    names.insert(entry.name);
  }
  for (const Watched& watched : watched_) {
    known.insert(watched.tensor.unsafeGetTensorImpl());
    if (here.count(watched.tensor.unsafeGetTensorImpl()) != 0) continue;
    const bool has_successor = names.count(watched.name) != 0;
    return change_after_wrapping(watched.name, has_successor
                                                   ? "was replaced by another tensor (by replace_module, or setattr)"
                                                   : "was taken out of the module");
  }
  for (const auto& entry : current) {
    const bool is_known = known.count(entry.tensor.unsafeGetTensorImpl()) != 0;
    if (!is_known) return change_after_wrapping(entry.name, "was added to the module (by push_back, for example)");
  }
  places_ = now_;  // only ignored ones, or names, have changed
  return {};
}

}  // namespace lockstep
