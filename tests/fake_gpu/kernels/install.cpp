// Puts the boxed kernel into the place of each kernel that LibTorch has for CUDA, when this library is loaded: at the
// first context, behind LibTorch.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <set>
#include <string>

#include "tests/fake_gpu/kernels/boxed_kernel.h"
#include "tests/fake_gpu/kernels/special_kernels.h"

namespace fake_gpu {
namespace {

// What LibTorch does for CUDA tensors without a kernel: memory, views, and copies of bytes.
const std::set<std::string>& real_operators() {
  static const std::set<std::string> names{"aten::empty.memory_format",
                                           "aten::empty_strided",
                                           "aten::as_strided",
                                           "aten::view",
                                           "aten::_reshape_alias",
                                           "aten::alias",
                                           "aten::unfold",
                                           "aten::view_as_real",
                                           "aten::view_as_complex",
                                           "aten::set_",
                                           "aten::set_.source_Storage",
                                           "aten::set_.source_Storage_storage_offset",
                                           "aten::set_.source_Tensor",
                                           "aten::is_set_to",
                                           "aten::resize_",
                                           "aten::record_stream",
                                           "aten::_local_scalar_dense",
                                           "aten::_efficientzerotensor",
                                           "aten::is_pinned",
                                           "aten::_pin_memory"};
  return names;
}

// LibTorch warns of each kernel that replaces another one, which is all that happens here.
struct SilentHandler : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

std::string name_of(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

torch::Library* install() {
  SilentHandler silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  auto* const library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  const std::set<std::string> special{"aten::copy_", "aten::native_dropout", "aten::_fused_sdp_choice"};
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 || real_operators().count(name_of(name)) > 0) continue;
    if (special.count(name_of(name)) > 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    library->impl(name_of(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
  }
  library->impl("copy_", TORCH_FN(copy_on_device));
  library->impl("native_dropout", TORCH_FN(dropout_on_device));
  library->impl("_fused_sdp_choice", TORCH_FN(attention_by_products));
  // scaled_dot_product_attention asks this one, whose own answer depends on cuDNN's version.
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&attention_by_products);
  at::globalContext().setUserEnabledCuDNN(false);  // its operators have no counterpart on the CPU
  return library;
}

torch::Library* const installed = install();

}  // namespace
}  // namespace fake_gpu
