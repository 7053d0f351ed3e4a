// A rank of a small training by Trainer that survives lost ranks, on four virtual shards, and ends early: two
// evaluations after its best one.
//   stopping_rank FOLDER [RANK STEP PLACE]
// Rank RANK of the start kills its launcher, and with it its host, in the evaluation after update STEP at PLACE:
// predicting (in its first batch) or evaluated (it has the result, and has counted it). The first rank of the end
// prints the number of updates and the bits of the best weights, which come back at the end.
#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "lockstep/comm/process_group.h"
#include "lockstep/train/early_stopping.h"
#include "lockstep/train/trainer.h"
#include "tests/programs/rank_programs.h"

namespace stopping_rank {
namespace {

namespace ls = lockstep;

struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(1);
    layer = register_module("layer", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return layer->forward(x); }
  torch::nn::Linear layer{nullptr};
};

class Rows : public ls::Dataset {
 public:
  explicit Rows(std::int64_t first) : first_(first) {}
  std::int64_t size() const override { return 32; }

 private:
  ls::Example do_get(std::int64_t index) const override {
    const std::int64_t row = first_ + index;
    const at::Tensor x = torch::arange(row * 3, row * 3 + 8).fmod(7).to(torch::kFloat);
    return {{"x", x}, {"labels", torch::tensor((row * row + 1) % 3, torch::kLong)}};
  }
  std::int64_t first_;
};

class LosesItsHost : public ls::TrainerCallback {
 public:
  LosesItsHost(std::string rank, std::string step, std::string place)
      : rank_(std::move(rank)), step_(std::move(step)), place_(std::move(place)) {}
  void on_prediction_step(ls::TrainerEvent& event) override { maybe_die(event, "predicting"); }
  void on_evaluate(ls::TrainerEvent& event) override { maybe_die(event, "evaluated"); }

 private:
  void maybe_die(const ls::TrainerEvent& event, const std::string& place) const {
    if (std::getenv("LOCKSTEP_MEMBER") != nullptr || rank_ != std::getenv("RANK")) return;
    if (place != place_ || std::to_string(event.state.global_step) != step_) return;
    ::kill(::getppid(), SIGKILL);
    for (;;) ::pause();
  }
  const std::string rank_, step_, place_;
};

std::uint64_t bits_of(const Net& net) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const at::Tensor& parameter : net.parameters()) {
    const at::Tensor plain = parameter.detach().contiguous();
    const auto* const bytes = static_cast<const unsigned char*>(plain.data_ptr());
    for (std::size_t i = 0; i < plain.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ULL;
  }
  return hash;
}

void run(const std::string& folder, const std::shared_ptr<ls::TrainerCallback>& faults) {
  const auto net = std::make_shared<Net>();
  ls::TrainerOptions options;
  options.model = ls::adapt(
      net, [](Net& module, const ls::Batch& batch) { return module.forward(batch.at("x")); },
      [](const at::Tensor& output, const ls::Batch& batch) {
        return ls::smoothed_cross_entropy(output, batch.at("labels"), 0);
      });
  options.train_dataset = std::make_shared<Rows>(0);
  options.eval_dataset = std::make_shared<Rows>(100);
  options.callbacks = {std::make_shared<ls::EarlyStoppingCallback>(2)};
  if (faults) options.callbacks.push_back(faults);
  options.args.output_dir = folder;
  options.args.per_device_train_batch_size = 2;
  options.args.per_device_eval_batch_size = 2;
  options.args.max_steps = 400;
  options.args.eval_strategy = "steps";
  options.args.eval_steps = 2;
  options.args.save_strategy = "steps";
  options.args.save_steps = 2;
  options.args.load_best_model_at_end = true;
  options.args.learning_rate = 0.05;
  options.args.virtual_shards = 4;
  options.args.survive_lost_ranks = true;
  ls::Trainer trainer(options);
  const ls::TrainOutput output = trainer.train();
  if (!trainer.is_world_process_zero()) return;
  std::printf("stopped after %lld updates with bits %016llx\n", static_cast<long long>(output.global_step),
              static_cast<unsigned long long>(bits_of(*net)));
}

}  // namespace
}  // namespace stopping_rank

int run_stopping_rank(int count, char** arguments) {
  using namespace stopping_rank;
  try {
    run(arguments[1], count > 4 ? std::make_shared<LosesItsHost>(arguments[2], arguments[3], arguments[4]) : nullptr);
    ls::destroy_process_group();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
