#include "lockstep/optim/optimizer_registry.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

namespace lockstep::optimizer_registry {
namespace {

struct RegisteredOptimizer {
  FlatOptimizer* optimizer;
  std::unordered_set<const c10::TensorImpl*> parameters;  // alive as long as the optimizer
};

struct RegisteredOptimizers {
  std::mutex mutex;
  std::vector<RegisteredOptimizer> entries;  // in the order of construction
};

// Never destroyed: a static optimizer may end after everything else.
RegisteredOptimizers& registered() {
  static auto& all = *new RegisteredOptimizers;
  return all;
}

}  // namespace

void add(FlatOptimizer& optimizer, const std::vector<at::Tensor>& parameters) {
  RegisteredOptimizers& all = registered();
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto entry = std::find_if(all.entries.begin(), all.entries.end(),
                            [&](const RegisteredOptimizer& each) { return each.optimizer == &optimizer; });
  if (entry == all.entries.end()) entry = all.entries.insert(all.entries.end(), {&optimizer, {}});
  for (const at::Tensor& parameter : parameters) entry->parameters.insert(parameter.unsafeGetTensorImpl());
}

void remove(FlatOptimizer& optimizer) noexcept {
  RegisteredOptimizers& all = registered();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.entries.erase(std::remove_if(all.entries.begin(), all.entries.end(),
                                   [&](const RegisteredOptimizer& each) { return each.optimizer == &optimizer; }),
                    all.entries.end());
}

std::vector<FlatOptimizer*> find(const std::vector<at::Tensor>& parameters) {
  RegisteredOptimizers& all = registered();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<FlatOptimizer*> found;
  for (const RegisteredOptimizer& entry : all.entries) {
    const bool is_one = std::any_of(parameters.begin(), parameters.end(), [&](const at::Tensor& parameter) {
      return entry.parameters.count(parameter.unsafeGetTensorImpl()) != 0;
    });
    if (is_one) found.push_back(entry.optimizer);
  }
  return found;
}

}  // namespace lockstep::optimizer_registry
