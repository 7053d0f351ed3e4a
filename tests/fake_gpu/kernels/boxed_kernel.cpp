// A kernel runs when its stream gets to it, and the call returns at once: what the host reads or frees meanwhile, and
// what another stream does without waiting, shows. Only an operator whose results' shapes depend on values makes the
// host wait, as on a GPU (nonzero, masked_select), and one that LibTorch has no shape kernel for.
#include "tests/fake_gpu/kernels/boxed_kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "tests/fake_gpu/kernels/arguments.h"
#include "tests/fake_gpu/kernels/planned_outputs.h"
#include "tests/fake_gpu/kernels/random.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/fake_device.h"
#include "tests/fake_gpu/runtime/settings.h"

namespace fake_gpu {
namespace {

bool takes_generator(const c10::Argument& argument) {
  const auto type = argument.type()->cast<c10::OptionalType>();
  return type != nullptr && type->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

// The arguments for the kernel of the CPU; `stand_for(tensor)` takes the place of CUDA tensors.
torch::jit::Stack arguments_of_cpu(const c10::OperatorHandle& op, const Values& arguments, c10::Device device,
                                   const std::function<at::Tensor(const at::Tensor&)>& stand_for) {
  const Substitutes substitutes{[&](const at::Tensor& tensor) {
                                  if (!tensor.defined()) return tensor;
                                  return tensor.is_cuda() ? stand_for(tensor) : launched_copy(tensor);
                                },
                                c10::kCPU};
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (takes_generator(op.schema().arguments()[i])) {
      stack.emplace_back(generator_of_call(arguments[i], device));
    } else {
      stack.push_back(replaced(arguments[i], substitutes));
    }
  }
  return stack;
}

void call_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_graph;
  op.callBoxed(&stack);
}

void launch(const c10::OperatorHandle& op, const Values& arguments, const PlannedOutputs& planned, c10::Device device) {
  const auto stack = std::make_shared<torch::jit::Stack>(arguments_of_cpu(op, arguments, device, host_tensor));
  std::vector<at::Tensor> made;
  for (const at::Tensor& tensor : planned.made) made.push_back(tensor.defined() ? host_tensor(tensor) : tensor);
  run_on_stream(c10::cuda::getCurrentCUDAStream(device.index()), [op, stack, made = std::move(made)] {
    call_on_cpu(op, *stack);
    std::size_t at = 0;
    for (const c10::IValue& result : *stack) {
      for_each_tensor(result, [&](const at::Tensor& tensor) {
        if (at < made.size() && made[at].defined() && tensor.defined()) made[at].copy_(tensor);
        ++at;
      });
    }
  });
}

void say_once(const std::string& name) {
  if (settings().log < 2) return;
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard<std::mutex> lock(mutex);
  if (said.insert(name).second) std::fprintf(stderr, "[fake GPU] %s makes the host wait\n", name.c_str());
}

// The host waits for the stream, computes, and puts the results onto the device.
void run_at_once(const c10::OperatorHandle& op, const Values& arguments, c10::Device device, torch::jit::Stack* stack) {
  say_once(op.operator_name().name);
  wait_quietly(c10::cuda::getCurrentCUDAStream(device.index()));
  std::vector<std::pair<at::Tensor, at::Tensor>> seen;  // on the device, on the host
  const auto& schema = op.schema();
  torch::jit::Stack inner = arguments_of_cpu(op, arguments, device, [&](const at::Tensor& tensor) {
    seen.emplace_back(tensor, host_tensor(tensor));
    return seen.back().second;
  });
  // An out argument takes any shape.
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool is_out = argument.kwarg_only() && argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (!is_out || !arguments[i].isTensor() || !arguments[i].toTensor().is_cuda()) continue;
    const at::Tensor out = at::empty({0}, arguments[i].toTensor().options().device(at::kCPU));
    seen.emplace_back(arguments[i].toTensor(), out);
    inner[i] = out;
  }
  call_on_cpu(op, inner);
  const Substitutes as_cuda{[&](const at::Tensor& tensor) {
                              if (!tensor.defined() || !tensor.is_cpu()) return tensor;
                              for (const auto& [on_device, on_host] : seen) {
                                if (!on_host.is_same(tensor)) continue;
                                if (on_device.sizes() != tensor.sizes()) on_device.resize_(tensor.sizes());
                                at::Tensor bytes = host_tensor(on_device);
                                if (bytes.numel() > 0 && bytes.data_ptr() != tensor.data_ptr()) bytes.copy_(tensor);
                                return on_device;
                              }
                              const at::Tensor made = at::empty_like(tensor, tensor.options().device(device));
                              if (made.numel() > 0) host_tensor(made).copy_(tensor);
                              return made;
                            },
                            device};
  for (const c10::IValue& result : inner) stack->push_back(replaced(result, as_cuda));
}

}  // namespace

void by_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const Values arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const c10::Device device = device_of_call(op.operator_name().name, arguments);
  const c10::cuda::CUDAGuard guard(device);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  ++counters().launches;
  const auto planned = plan_outputs(op, arguments, device);
  if (!planned) return run_at_once(op, arguments, device, stack);
  launch(op, arguments, *planned, device);
  for (const c10::IValue& result : planned->results) stack->push_back(result);
}

}  // namespace fake_gpu
