// The results' shapes come of the operator's kernel for meta tensors, which have shapes and no bytes. An operator that
// only writes to its arguments, such as add_, needs none.
#include "tests/fake_gpu/kernels/planned_outputs.h"

#include <mutex>
#include <set>
#include <utility>

namespace fake_gpu {
namespace {

struct MetaArgument {
  at::Tensor cuda, meta;
};

std::mutex without_meta_mutex;
std::set<std::string>& operators_without_meta() {
  static auto* const names = new std::set<std::string>;
  return *names;
}

std::string full_name(const c10::OperatorHandle& op) {
  return op.operator_name().name + "." + op.operator_name().overload_name;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// The results of an operator such as add_: the arguments that it writes to. Nothing for other operators, and for those
// with out arguments, which change their shapes.
std::optional<PlannedOutputs> outputs_in_place(const c10::FunctionSchema& schema, const Values& arguments) {
  PlannedOutputs planned;
  for (const c10::Argument& argument : schema.arguments()) {
    if (writes(argument) && argument.kwarg_only() && argument.name().rfind("out", 0) == 0) return std::nullopt;
  }
  for (const c10::Argument& result : schema.returns()) {
    if (!writes(result)) return std::nullopt;
    std::size_t at = 0;
    for (; at < arguments.size(); ++at) {
      const c10::Argument& argument = schema.arguments()[at];
      if (writes(argument) && argument.alias_info()->beforeSets() == result.alias_info()->beforeSets()) break;
    }
    if (at == arguments.size()) return std::nullopt;
    planned.results.push_back(arguments[at]);
    planned.made.emplace_back();
  }
  return planned;
}

at::Tensor meta_of(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).pinned_memory(false));
}

bool runs_on_meta(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const std::string name = full_name(op);
  {
    const std::lock_guard<std::mutex> lock(without_meta_mutex);
    if (operators_without_meta().count(name) > 0) return false;
  }
  try {
    op.callBoxed(&stack);
    return true;
  } catch (const c10::NotImplementedError&) {
    const std::lock_guard<std::mutex> lock(without_meta_mutex);
    operators_without_meta().insert(name);
  } catch (const c10::Error&) {  // the kernel for the CPU says what is wrong
  }
  return false;
}

}  // namespace

std::optional<PlannedOutputs> plan_outputs(const c10::OperatorHandle& op, const Values& arguments, c10::Device device) {
  if (auto in_place = outputs_in_place(op.schema(), arguments)) return in_place;

  std::vector<MetaArgument> seen;
  const Substitutes as_meta{[&](const at::Tensor& tensor) {
                              if (!tensor.defined()) return tensor;
                              if (tensor.is_cpu() && tensor.dim() == 0) return tensor;
                              seen.push_back({tensor, meta_of(tensor)});
                              return seen.back().meta;
                            },
                            c10::kMeta};
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments) {
    stack.push_back(argument.isGenerator() ? c10::IValue() : replaced(argument, as_meta));
  }
  if (!runs_on_meta(op, stack)) return std::nullopt;

  // Arguments that were given another shape, as out arguments are.
  for (const MetaArgument& argument : seen) {
    if (argument.cuda.sizes() != argument.meta.sizes()) argument.cuda.resize_(argument.meta.sizes());
  }
  PlannedOutputs planned;
  bool known = true;
  const Substitutes as_cuda{
      [&](const at::Tensor& tensor) {
        planned.made.emplace_back();
        if (!tensor.defined()) return tensor;
        known = known && tensor.is_meta();
        if (!known) return tensor;
        for (const MetaArgument& argument : seen) {
          if (argument.meta.is_same(tensor)) return argument.cuda;
          if (argument.meta.is_alias_of(tensor)) {
            return argument.cuda.as_strided(tensor.sizes(), tensor.strides(),
                                            argument.cuda.storage_offset() + tensor.storage_offset());
          }
        }
        planned.made.back() = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
        return planned.made.back();
      },
      device};
  for (const c10::IValue& result : stack) planned.results.push_back(replaced(result, as_cuda));
  if (!known) return std::nullopt;
  return planned;
}

}  // namespace fake_gpu
