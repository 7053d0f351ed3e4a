#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace torch {
namespace jit {
struct Module;
}
namespace nn {
class Module;
}
}  // namespace torch

namespace lockstep {

/// Whether a module is TorchScript, which is held by value, unlike a module holder or a shared_ptr.
template <typename ModuleType>
constexpr bool kIsScriptModule = std::is_base_of_v<torch::jit::Module, ModuleType>;

namespace detail {

template <typename T, typename = void>
struct PointsToModule : std::false_type {};
template <typename T>
struct PointsToModule<T, std::void_t<decltype(*std::declval<T&>())>>
    : std::is_base_of<torch::nn::Module, std::decay_t<decltype(*std::declval<T&>())>> {};

// Class templates call it first, so that this is the first error that a compiler shows.
template <typename ModuleType>
constexpr bool require_wrappable() {
  static_assert(
      !std::is_base_of_v<torch::nn::Module, ModuleType>,
      "a module by value cannot be wrapped, since a copy of it would be: write `auto model = "
      "std::make_shared<Net>();` and `model->`. A module holder (TORCH_MODULE), a std::shared_ptr to a module "
      "and a torch::jit::Module can be wrapped");
  static_assert(std::is_base_of_v<torch::nn::Module, ModuleType> || kIsScriptModule<ModuleType> ||
                    PointsToModule<ModuleType>::value,
                "what is to be wrapped is not a module: give a module holder (TORCH_MODULE), a std::shared_ptr to a "
                "class derived from torch::nn::Module, or a torch::jit::Module");
  return true;
}

// The module inside a module holder or a shared_ptr; TorchScript itself.
template <typename ModuleType>
auto& plain_module(ModuleType& module) {
  if constexpr (kIsScriptModule<ModuleType>) {
    return module;
  } else {
    return *module;
  }
}

}  // namespace detail

/// The members of a module that PyTorch's wrappers have too; each forwards to the wrapped module.
/// @tparam Wrapper  the class derived from this, which has `module()`
/// @tparam ModuleType  the type that `module()` returns
template <typename Wrapper, typename ModuleType>
class ModuleMembers {
 public:
  void train(bool on = true) { plain().train(on); }
  void eval() { plain().eval(); }
  bool is_training() { return plain().is_training(); }
  std::vector<at::Tensor> parameters() { return listed(plain().parameters()); }
  std::vector<at::Tensor> buffers() { return listed(plain().buffers()); }
  /// Gradients become zero, or undefined if that is the default of this LibTorch's modules.
  void zero_grad() {
    if constexpr (kIsScriptModule<ModuleType>) {
      zero_grad(false);
    } else {
      plain().zero_grad();
    }
  }
  void zero_grad(bool set_to_none) {
    if constexpr (kIsScriptModule<ModuleType>) {  // TorchScript has no zero_grad of its own
      for (at::Tensor& parameter : parameters()) {
        at::Tensor& gradient = parameter.mutable_grad();
        if (gradient.defined()) gradient = set_to_none ? at::Tensor() : gradient.detach().zero_();
      }
    } else {
      plain().zero_grad(set_to_none);
    }
  }
  /// Access to all other members of the module.
  auto* operator->() { return &plain(); }

 protected:
  ModuleMembers() = default;
  ModuleMembers(const ModuleMembers&) = default;
  ModuleMembers& operator=(const ModuleMembers&) = default;
  ~ModuleMembers() = default;

 private:
  auto& plain() { return detail::plain_module<ModuleType>(static_cast<Wrapper&>(*this).module()); }
  template <typename Tensors>
  static std::vector<at::Tensor> listed(const Tensors& tensors) {
    std::vector<at::Tensor> list;
    for (const at::Tensor& tensor : tensors) list.push_back(tensor);
    return list;
  }
};

}  // namespace lockstep
