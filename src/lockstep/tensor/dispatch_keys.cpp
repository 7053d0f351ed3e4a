#include "lockstep/tensor/dispatch_keys.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <deque>
#include <mutex>
#include <string>

namespace lockstep {
namespace {

// Not by TORCH_LIBRARY_IMPL: a linker leaves out files of an archive to which nobody refers. Never destroyed, because
// LibTorch's dispatcher may be destroyed earlier. Volatile, so that the pointer stays and leak checkers find it.
torch::Library& new_library(const char* space, c10::DispatchKey key) {
  static std::mutex mutex;
  static std::deque<torch::Library>* volatile all = new std::deque<torch::Library>;
  const std::lock_guard<std::mutex> lock(mutex);
  return all->emplace_back(torch::Library::IMPL, space, key, __FILE__, __LINE__);
}

}  // namespace

void call_before_operations(c10::DispatchKey key, MakeFunction make) { new_library("_", key).fallback(make()); }

void call_before_operations(c10::DispatchKey key, MakeFunction make, bool (*is_meant)(const c10::OperatorHandle&)) {
  new_library("_", key).fallback(torch::CppFunction::makeFallthrough());
  torch::Library& meant = new_library("aten", key);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto operation = dispatcher.findSchema(name);
    if (!operation || !is_meant(*operation)) continue;
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    meant.impl(full.c_str(), make());
  }
}

}  // namespace lockstep
