// Tests models of other kinds in the Trainer: TorchScript.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <filesystem>

#include "lockstep/comm/spawn.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/safetensors/safetensors.h"
#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

at::Tensor script_weight() { return torch::linspace(-0.4, 0.4, 20).reshape({5, 4}).clone(); }

std::shared_ptr<torch::jit::Module> script_module() {
  auto module = std::make_shared<torch::jit::Module>("scripted");
  module->register_parameter("weight", script_weight().requires_grad_(), false);
  module->register_parameter("bias", torch::zeros({5}).requires_grad_(), false);
  module->define("def forward(self, x):\n    return torch.linear(torch.tanh(x), self.weight, self.bias)\n");
  return module;
}

LossSum class_loss(const at::Tensor& output, const Batch& batch) {
  return smoothed_cross_entropy(output, batch.at("labels"), 0);
}

std::shared_ptr<const Dataset> class_rows() {
  const at::Tensor x = torch::arange(40 * 4, torch::kFloat).mul(0.7).sin().reshape({40, 4});
  return std::make_shared<TensorDataset>(Batch{{"x", x}, {"labels", x.sum(1).gt(0).to(torch::kLong) * 3}});
}

struct ScriptRun {
  at::Tensor weight, bias;
  double eval_loss = 0;
};

ScriptRun train_script(const std::shared_ptr<TrainableModel>& model, const std::shared_ptr<Communicator>& group,
                       std::int64_t batch_size, const std::string& folder) {
  TrainerOptions options;
  options.model = model;
  options.train_dataset = options.eval_dataset = class_rows();
  options.process_group = group;
  options.print = nullptr;
  options.args.output_dir = folder;
  options.args.per_device_train_batch_size = batch_size;
  options.args.num_train_epochs = 8;
  options.args.learning_rate = 0.05;
  options.args.weight_decay = 0.1;
  options.args.save_strategy = "epoch";
  options.args.save_total_limit = 1;
  Trainer trainer(options);
  trainer.train();
  const Logs metrics = trainer.evaluate();
  trainer.save_model();
  ScriptRun run;
  for (const NamedTensor& each : model->tensors().parameters) {
    (each.name == "weight" ? run.weight : run.bias) = each.tensor.detach().clone();
  }
  run.eval_loss = *find_log(metrics, "eval_loss");
  return run;
}

TEST(TorchScript, TrainsAsTheModuleThatItIs) {
  const TemporaryFolder folder;
  torch::nn::Linear linear(4, 5);
  {
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(script_weight());
    linear->bias.zero_();
  }
  const auto plain = adapt(
      linear.ptr(),
      [](torch::nn::LinearImpl& each, const Batch& batch) { return each.forward(torch::tanh(batch.at("x"))); },
      class_loss);
  const auto scripted = [] {
    return adapt(
        script_module(),
        [](torch::jit::Module& each, const Batch& batch) { return each.forward({batch.at("x")}).toTensor(); },
        class_loss);
  };
  const ScriptRun want = train_script(plain, nullptr, 8, folder / "plain");
  const ScriptRun got = train_script(scripted(), nullptr, 8, folder / "script");
  EXPECT_LT(want.eval_loss, 0.5);
  EXPECT_TRUE(got.weight.allclose(want.weight, 1e-5, 1e-6)) << got.weight << want.weight;
  EXPECT_TRUE(got.bias.allclose(want.bias, 1e-5, 1e-6));
  const SafetensorsFile saved(folder / "script/model.safetensors");
  EXPECT_TRUE(saved.tensor("weight").equal(got.weight));
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const ScriptRun rank = train_script(scripted(), group, 4, folder / "ranks");
    EXPECT_TRUE(rank.weight.allclose(want.weight, 1e-4, 1e-5));
    EXPECT_NEAR(rank.eval_loss, want.eval_loss, 1e-5);
  });
}

}  // namespace
}  // namespace lockstep
