// `lockstep verify` of a TorchScript file.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <torch/utils.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/mnist.h"
#include "lockstep/data/nsl_kdd.h"
#include "tools/lockstep/verify/verify_flags.h"
#include "tools/models/verify_data.h"

namespace lockstep {
namespace {

constexpr const char* kInputs = "inputs";
constexpr const char* kLabels = "labels";

torch::jit::Module load_script(const std::string& path) {
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw Error("the file is not a TorchScript module: " + what.substr(0, what.find('\n')), path,
                "save one in Python: torch.jit.script(model).save(path); or name the folder of a model");
  }
}

bool are_scores(const at::Tensor& output) { return output.dim() == 2 && output.size(1) > 1; }

std::shared_ptr<const Dataset> script_data(const std::string& path) {
  if (std::filesystem::is_directory(path)) return mnist(path, Split::Train);
  return read_nsl_kdd(path).dataset;
}

// A file's samples under the names that are used here.
Batch of_file(Batch batch) {
  Batch named;
  for (auto& [name, tensor] : batch) named[name == kLabels ? kLabels : kInputs] = tensor;
  return named;
}

Batch random_inputs(const VerifyFlags& flags) {
  std::vector<std::int64_t> shape{flags.batch};
  shape.insert(shape.end(), flags.input_shape.begin(), flags.input_shape.end());
  return {{kInputs, at::randn(shape)}};
}

// Labels for inputs that have none: random classes, or random numbers.
at::Tensor labels_for(const at::Tensor& output) {
  return are_scores(output) ? at::randint(output.size(1), {output.size(0)}, at::kLong) : at::randn_like(output);
}

at::Tensor loss_of(const at::Tensor& output, const at::Tensor& labels) {
  return are_scores(output) ? at::cross_entropy_loss(output, labels) : at::mse_loss(output, labels.to(output.dtype()));
}

at::Tensor output_of(const at::IValue& value, const std::string& path) {
  if (value.isTensor()) return value.toTensor();
  throw Error("the module's output is a " + value.tagKind() + ", not a tensor", path,
              "in a program, lockstep::verify takes any output and loss");
}

}  // namespace

Verification verify_script(const VerifyFlags& flags) {
  if (!flags.data.empty() && !flags.input_shape.empty()) {
    throw UsageError("--data and --input-shape cannot be combined", "command line", "give one of them");
  }
  if (flags.data.empty() && flags.input_shape.empty()) {
    throw UsageError("the shape of the inputs of " + flags.model + " is unknown", "command line",
                     "give the shape of one sample, such as --input-shape 3,32,32, or --data");
  }
  torch::manual_seed(flags.seed);
  torch::jit::Module module = load_script(flags.model);
  const at::ScalarType type = flags.is_double ? at::kDouble : at::kFloat;
  module.to(type);
  module.eval();
  const auto dataset = flags.data.empty() ? nullptr : script_data(flags.data);
  std::vector<Batch> batches;
  for (int step = 0; step < flags.steps; ++step) {
    Batch batch = dataset ? of_file(verification_batch(*dataset, flags.data, flags.batch, step)) : random_inputs(flags);
    batch[kInputs] = batch[kInputs].to(type);
    if (batch.count(kLabels) == 0) {
      const torch::NoGradGuard no_grad;
      batch[kLabels] = labels_for(output_of(module.forward({batch[kInputs]}), flags.model));
    }
    batches.push_back(batch);
  }
  const auto loss = [&](auto& net, const Batch& part) {
    return loss_of(output_of(net(part.at(kInputs)), flags.model), part.at(kLabels));
  };
  return verify(module, batches, loss, flags.options);
}

}  // namespace lockstep
