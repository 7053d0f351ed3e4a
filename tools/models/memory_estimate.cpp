#include "tools/models/memory_estimate.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/download_hint.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/fused/weights/weight_units.h"
#include "tools/frame/progress_line.h"
#include "tools/models/allocated_bytes.h"
#include "tools/models/array_model.h"
#include "tools/models/counted_copies.h"

namespace lockstep {
namespace {

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kLargestDryRun = std::int64_t{1} << 30;
constexpr std::int64_t kGpt3Positions = 2048;

// The memory that a forward pass keeps for backward, with casts of weights, and with copies in their place.
struct HeldBytes {
  std::int64_t with_casts = 0;
  std::int64_t with_copies = 0;
  std::vector<bool> has_copy;  // by parameter
};

HeldBytes held_by_forward(Model& model, const MemoryQuestion& question, std::int64_t batch_size) {
  RandomBatchOptions shape;
  shape.size = batch_size;
  shape.sequence_length = question.sequence_length;
  const Batch batch = model.random_batch(shape);
  model.train();
  const auto forward = [&] {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, question.bf16);
    return model.loss(model.forward(batch), batch).mean();
  };
  const auto held = [&] {
    forward();  // values that are made once and kept are not activations
    const AllocatedBytes bytes;
    const at::Tensor loss = forward();
    return bytes.now();
  };
  HeldBytes result;
  result.with_casts = held();
  result.with_copies = result.with_casts;
  if (!question.bf16) return result;
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : module_tensors(model).parameters) parameters.push_back(parameter.tensor);
  CountedCopies copies(parameters);
  forward();
  copies.serve();
  result.with_copies = held();
  result.has_copy = copies.asked();
  return result;
}

GPT2Config config_of(const Gpt3Size& size, const MemoryQuestion& question) {
  GPT2Config config;
  config.n_positions = kGpt3Positions;
  config.n_layer = size.layers;
  config.n_embd = size.hidden;
  config.n_head = size.heads;
  config.gradient_checkpointing = question.gradient_checkpointing;
  return config;
}

const Gpt3Size* find_gpt3(const std::string& name) {
  for (const Gpt3Size& size : gpt3_sizes()) {
    if (size.name == name) return &size;
  }
  return nullptr;
}

// A GPT-2 registers two tables, twelve for each layer, and a LayerNorm.
constexpr std::ptrdiff_t kParametersBeforeLayers = 2;
constexpr std::ptrdiff_t kParametersAfterLayers = 2;

std::int64_t parameters_of_block(std::int64_t hidden) { return 12 * hidden * hidden + 13 * hidden; }

std::int64_t parameters_of(const GPT2Config& config) {
  return (config.vocab_size + config.n_positions + 2) * config.n_embd +
         config.n_layer * parameters_of_block(config.n_embd);
}

// One small model, as a row of the equations that the fit solves.
struct SmallModel {
  std::int64_t layers, hidden, heads, vocabulary, batch;

  // The terms in which memory is linear: values that exist once or for each layer, with or without a factor for the
  // samples.
  std::vector<double> terms() const {
    const auto l = static_cast<double>(layers), h = static_cast<double>(hidden), a = static_cast<double>(heads),
               v = static_cast<double>(vocabulary), b = static_cast<double>(batch);
    return {1, h, v, v * h, l, l * h, l * h * h, b, b * h, b * v, b * l, b * l * h, b * l * a};
  }
};

// A GPT-2's list of parameters, of one layer, for as many layers as there are.
std::vector<bool> for_layers(const std::vector<bool>& of_one_layer, std::int64_t layers) {
  std::vector<bool> all;
  if (of_one_layer.empty()) return all;
  const auto first = of_one_layer.begin() + kParametersBeforeLayers,
             behind = of_one_layer.end() - kParametersAfterLayers;
  all.assign(of_one_layer.begin(), first);
  for (std::int64_t layer = 0; layer < layers; ++layer) all.insert(all.end(), first, behind);
  all.insert(all.end(), behind, of_one_layer.end());
  return all;
}

// The activations of a GPT-2 of any size, from dry runs of small ones with texts of equal length.
HeldBytes fitted_activations(const GPT2Config& wanted, const MemoryQuestion& question) {
  const ProgressLine progress;
  std::vector<double> terms;
  std::vector<double> bytes;  // of each run, with casts and with copies
  HeldBytes result;
  std::int64_t runs = 0;
  for (const std::int64_t layers : {1, 2}) {
    for (const std::int64_t hidden : {64, 128, 192}) {
      for (const std::int64_t heads : {1, 2}) {
        for (const std::int64_t vocabulary : {256, 512}) {
          GPT2Config config = wanted;
          config.n_layer = layers;
          config.n_embd = hidden;
          config.n_head = heads;
          config.vocab_size = vocabulary;
          GPT2LMHeadModelImpl model(config);
          for (const std::int64_t batch : {1, 2}) {
            progress.show(fmt::format("dry run {} of 48 of a small GPT-3", ++runs));
            const std::vector<double> row = SmallModel{layers, hidden, heads, vocabulary, batch}.terms();
            terms.insert(terms.end(), row.begin(), row.end());
            const HeldBytes held = held_by_forward(model, question, batch);
            bytes.push_back(static_cast<double>(held.with_casts));
            bytes.push_back(static_cast<double>(held.with_copies));
            if (layers == 1) result.has_copy = for_layers(held.has_copy, wanted.n_layer);
          }
        }
      }
    }
  }
  at::Tensor a = torch::tensor(terms, torch::kDouble).view({runs, -1});
  const at::Tensor scale = std::get<0>(a.max(0));
  const at::Tensor y = torch::tensor(bytes, torch::kDouble).view({runs, 2});
  const at::Tensor x = std::get<0>(at::linalg_lstsq(a / scale, y)) / scale.unsqueeze(1);
  const SmallModel size{wanted.n_layer, wanted.n_embd, wanted.n_head, wanted.vocab_size, question.batch};
  const at::Tensor fitted = torch::tensor(size.terms(), torch::kDouble).matmul(x);
  result.with_casts = fitted[0].item().toLong();
  result.with_copies = fitted[1].item().toLong();
  return result;
}

std::shared_ptr<Model> make_for_dry_run(const MemoryQuestion& question) {
  if (const Gpt3Size* size = find_gpt3(question.model)) {
    return std::make_shared<GPT2LMHeadModelImpl>(config_of(*size, question));
  }
  if (std::filesystem::exists(question.model) && !std::filesystem::is_directory(question.model)) {
    throw UsageError(question.model + " is a file", "command line",
                     "name the folder of a pretrained model, or a model: lockstep estimate-memory --help lists them");
  }
  if (!std::filesystem::is_directory(question.model)) {
    ModelOptions options;
    options.gradient_checkpointing = question.gradient_checkpointing;
    try {
      return make_model(question.model, options);
    } catch (const Error& error) {
      throw UsageError(error.happened(), "command line",
                       download_hint(question.model) + "give the folder of a model, whose config.json is enough; or " +
                           error.fix() + ", or a GPT-3, as gpt3-small");
    }
  }
  const std::string type = ConfigFile(question.model).text({"model_type"}, "");
  if (type == "convnet" || type == "mlp") return load_array_model(question.model).model;
  return make_model_of_folder(question.model, question.gradient_checkpointing);
}

// The largest part that computes as one: a layer, whose name is a number, or a module without children.
std::int64_t largest_layer_of(const torch::nn::Module& module, bool is_layer = false) {
  std::int64_t largest = 0;
  if (is_layer || module.children().empty()) {
    for (const at::Tensor& parameter : module.parameters()) largest += parameter.numel();
    return largest;
  }
  for (const auto& child : module.named_children()) {
    const bool is_numbered = std::isdigit(static_cast<unsigned char>(child.key().front())) != 0;
    largest = std::max(largest, largest_layer_of(*child.value(), is_numbered));
  }
  return largest;
}

// Adds the parameters and units of a model that was made.
void add_parameters(const torch::nn::Module& module, ModelMemory& memory) {
  // It is not changed: module_tensors hands out handles.
  const ModuleTensors tensors = module_tensors(const_cast<torch::nn::Module&>(module));
  const std::vector<std::string> units = unit_names({}, tensors);
  for (const NamedTensor& parameter : tensors.parameters) {
    memory.parameters += parameter.tensor.numel();
    memory.parameter_bytes.push_back(parameter.tensor.numel() * kFloatBytes);
    memory.units.push_back(unit_of(parameter.name, units));
  }
  memory.weights = memory.parameters * kFloatBytes;
  memory.largest_layer = largest_layer_of(module) * kFloatBytes;
}

// Sizes of a GPT-2's parameters, in the order of registration.
std::vector<std::int64_t> parameter_bytes_of(const GPT2Config& config) {
  const std::int64_t h = config.n_embd;
  std::vector<std::int64_t> numbers{config.vocab_size * h, config.n_positions * h};
  for (std::int64_t layer = 0; layer < config.n_layer; ++layer) {
    for (const std::int64_t count : {h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h}) {
      numbers.push_back(count);
    }
  }
  numbers.insert(numbers.end(), {h, h});
  for (std::int64_t& number : numbers) number *= kFloatBytes;
  return numbers;
}

// Layers are units; tables and the last LayerNorm are in none.
std::vector<std::size_t> units_of(const GPT2Config& config) {
  constexpr std::size_t kParametersOfLayer = 12;
  std::vector<std::size_t> units{0, 0};
  for (std::int64_t layer = 0; layer < config.n_layer; ++layer) {
    units.insert(units.end(), kParametersOfLayer, static_cast<std::size_t>(layer) + 1);
  }
  units.insert(units.end(), {0, 0});
  return units;
}

void set_held(ModelMemory& memory, const HeldBytes& held) {
  memory.activations = held.with_casts;
  memory.without_casts = held.with_copies;
  memory.has_copy = held.has_copy;
}

}  // namespace

const std::vector<Gpt3Size>& gpt3_sizes() {
  // The paper lists 24 heads of 128 for XL and a width of 5140 for 13B; these numbers are consistent.
  static const std::vector<Gpt3Size> sizes{{"gpt3-small", 12, 768, 12},  {"gpt3-medium", 24, 1024, 16},
                                           {"gpt3-large", 24, 1536, 16}, {"gpt3-xl", 24, 2048, 16},
                                           {"gpt3-2.7b", 32, 2560, 32},  {"gpt3-6.7b", 32, 4096, 32},
                                           {"gpt3-13b", 40, 5120, 40},   {"gpt3-175b", 96, 12288, 96}};
  return sizes;
}

ModelMemory measure_model_memory(const MemoryQuestion& question) {
  ModelMemory memory;
  if (const Gpt3Size* size = find_gpt3(question.model)) {
    const GPT2Config config = config_of(*size, question);
    memory.parameters = parameters_of(config);
    memory.weights = memory.parameters * kFloatBytes;
    if (question.fit || memory.weights > kLargestDryRun) {
      memory.largest_layer =
          std::max(parameters_of_block(config.n_embd), config.vocab_size * config.n_embd) * kFloatBytes;
      memory.parameter_bytes = parameter_bytes_of(config);
      memory.units = units_of(config);
      set_held(memory, fitted_activations(config, question));
      memory.activations_are_fitted = true;
      return memory;
    }
  }
  if (question.fit && find_gpt3(question.model) == nullptr) {
    throw UsageError("--fit with " + question.model, "command line", "leave it out: the fit is for GPT-3");
  }
  const ProgressLine progress;
  progress.show(fmt::format("making {} with random weights, to see what a forward pass keeps", question.model));
  const std::shared_ptr<Model> model = make_for_dry_run(question);
  if (question.sequence_length > 0 && model->input_kind() != InputKind::Text) {
    throw UsageError("--seq with " + question.model + ", which takes no texts", "command line", "leave it out");
  }
  memory.parameters = 0;
  add_parameters(*model, memory);
  // Activations are linear in the batch, so two small batches are enough.
  progress.show(fmt::format("dry run of {}, 1 sample", question.model));
  const HeldBytes one = held_by_forward(*model, question, 1);
  progress.show(fmt::format("dry run of {}, 2 samples", question.model));
  HeldBytes all = held_by_forward(*model, question, 2);
  all.with_casts = one.with_casts + (question.batch - 1) * (all.with_casts - one.with_casts);
  all.with_copies = one.with_copies + (question.batch - 1) * (all.with_copies - one.with_copies);
  set_held(memory, all);
  return memory;
}

}  // namespace lockstep
