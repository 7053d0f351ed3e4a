// Autograd starts a thread for each device but the CPU at the first backward, and refuses to compute in processes that
// are forked after that. Debian 13's LibTorch has such a device everywhere, Vulkan. Tests fork ranks, and use the CPU.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace lockstep::testing {
namespace {

[[maybe_unused]] const bool kVulkanIsHidden = [] {
  c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::Vulkan)].store(nullptr);
  return true;
}();

}  // namespace
}  // namespace lockstep::testing
