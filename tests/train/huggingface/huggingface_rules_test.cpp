// Compares with rules of Hugging Face's Trainer, and with scikit-learn's metrics, as recorded by huggingface/rules.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "lockstep/data/length_grouped_sampler.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/early_stopping.h"
#include "lockstep/train/loop/training_optimizer.h"
#include "lockstep/train/loop/training_plan.h"
#include "lockstep/train/trainer.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/huggingface/huggingface_facts.h"

namespace lockstep {
namespace {

const nlohmann::json& recorded_rules() {
  static const nlohmann::json facts = huggingface_facts("rules");
  return facts;
}

TEST(HuggingFaceRules, LearningRatesOfEverySchedule) {
  for (const auto& want : recorded_rules().at("schedules")) {
    TrainingArguments args;
    args.learning_rate = 0.01;
    args.lr_scheduler_type = want.at("name");
    args.lr_scheduler_kwargs = want.at("kwargs");
    TrainingPlan plan;
    plan.warmup_steps = want.at("warmup");
    plan.max_steps = want.at("total");
    torch::optim::SGD sgd({torch::zeros({1})}, 0.01);
    TrainingSchedule schedule(args, plan, sgd);
    for (const double rate : want.at("rates")) {
      EXPECT_NEAR(schedule.learning_rate(), rate, 1e-15) << want;
      schedule.step();
    }
  }
}

// Normalisation layers whose names say so, and others whose names do not.
void add_norms(torch::nn::Module& module) {
  module.register_module("first", torch::nn::LayerNorm(torch::nn::LayerNormOptions({3})));
  module.register_module("input_norm", torch::nn::BatchNorm1d(3));
  module.register_module("bn1", torch::nn::BatchNorm1d(3));
  module.register_module(
      "head", torch::nn::Sequential(torch::nn::Linear(3, 3), torch::nn::LayerNorm(torch::nn::LayerNormOptions({3}))));
}

struct NamedNorms : torch::nn::Module {
  NamedNorms() { add_norms(*this); }
};

class ModelOfNorms : public Model {
 public:
  ModelOfNorms() : Model("named") { add_norms(*this); }
  InputKind input_kind() const override { return InputKind::Features; }
  std::vector<InputField> inputs() const override { return {}; }
  Batch random_batch(const RandomBatchOptions&) const override { return {}; }
  LossSum loss(const at::Tensor&, const Batch&) const override { return {}; }

 private:
  at::Tensor forward_batch(const Batch& batch) override { return batch.at("x"); }
  std::shared_ptr<Model> make_alike() const override { return std::make_shared<ModelOfNorms>(); }
};

std::shared_ptr<TrainableModel> model_of_decays(const std::string& name) {
  if (name == "named") {
    return adapt(
        std::make_shared<NamedNorms>(), [](NamedNorms&, const Batch& batch) { return batch.at("x"); },
        [](const at::Tensor&, const Batch&) { return LossSum(); });
  }
  const auto task = name == "gpt2-lm"    ? TextTask::CausalLanguageModel
                    : name == "bert-mlm" ? TextTask::MaskedLanguageModel
                                         : TextTask::SequenceClassification;
  return adapt(load_pretrained_model(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/models/fixtures/" + name, task).model);
}

void expect_decays(TrainableModel& model, const nlohmann::json& want) {
  std::vector<std::string> decayed, others;
  for (const NamedTensor& parameter : model.tensors().parameters) {
    (model.is_decayed(parameter.name) ? decayed : others).push_back(parameter.name);
  }
  std::sort(decayed.begin(), decayed.end());
  std::sort(others.begin(), others.end());
  EXPECT_EQ(nlohmann::json(decayed), want.at("decayed")) << want.at("model");
  EXPECT_EQ(nlohmann::json(others), want.at("others")) << want.at("model");
}

TEST(HuggingFaceRules, ParametersWithWeightDecay) {
  for (const auto& want : recorded_rules().at("decays")) {
    expect_decays(*model_of_decays(want.at("model")), want);
    if (want.at("model") != "named") continue;
    // `lockstep train` knows a model by its base class alone.
    const std::shared_ptr<Model> model = std::make_shared<ModelOfNorms>();
    expect_decays(*adapt(model), want);
  }
}

TEST(HuggingFaceRules, OrderOfLengthsOnEveryRank) {
  for (const auto& want : recorded_rules().at("groups")) {
    std::vector<std::int64_t> lengths(want.at("samples").get<std::size_t>());
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i * i % 23);
    LengthGroupedSamplerOptions options;
    options.batch_size = want.at("batch");
    options.num_replicas = want.at("replicas");
    options.rank = want.at("rank");
    options.seed = 7;
    LengthGroupedSampler sampler(lengths, options);
    sampler.set_epoch(want.at("epoch"));
    EXPECT_EQ(nlohmann::json(sampler.indices()), want.at("order")) << want;
  }
}

// Steps until early stopping ends a training whose evaluations return `values`.
std::int64_t steps_of(const nlohmann::json& stop) {
  const TemporaryFolder folder;
  torch::nn::Linear line(1, 1);
  const auto size = static_cast<std::int64_t>(stop.at("values").size());
  TrainerOptions options;
  options.model = adapt(
      line.ptr(), [](torch::nn::LinearImpl& each, const Batch& batch) { return each.forward(batch.at("x")); },
      [](const at::Tensor& scores, const Batch& batch) {
        return LossSum{(scores - batch.at("labels")).square().sum(), torch::tensor(scores.size(0))};
      });
  const auto rows = [](std::int64_t count) {
    return std::make_shared<TensorDataset>(Batch{{"x", torch::ones({count, 1})}, {"labels", torch::ones({count, 1})}});
  };
  options.train_dataset = rows(size);
  options.eval_dataset = rows(1);
  options.print = nullptr;
  options.args.output_dir = folder.path();
  options.args.save_strategy = "no";
  options.args.per_device_train_batch_size = 1;
  options.args.num_train_epochs = 1;
  options.args.eval_strategy = "steps";
  options.args.eval_steps = 1;
  options.args.metric_for_best_model = "score";
  options.args.greater_is_better = stop.at("greater").get<bool>();
  std::size_t next = 0;
  options.compute_metrics = [&](const EvalPrediction&) {
    return Metrics{{"score", std::stod(stop.at("values").at(next++).get<std::string>())}};
  };
  options.callbacks = {std::make_shared<EarlyStoppingCallback>(stop.at("patience"), stop.at("threshold"))};
  return Trainer(options).train().global_step;
}

TEST(HuggingFaceRules, EarlyStoppingStopsAtTheSameStep) {
  for (const auto& want : recorded_rules().at("stops")) EXPECT_EQ(steps_of(want), want.at("steps")) << want;
}

TEST(HuggingFaceRules, MetricsOfClassifiersAreThoseOfScikitLearn) {
  for (const auto& want : recorded_rules().at("classifications")) {
    EvalPrediction evaluation;
    const auto classes = want.at("classes").get<std::int64_t>();
    const auto tensor_of = [&](const char* name) {
      return torch::tensor(want.at(name).get<std::vector<std::int64_t>>(), torch::kLong);
    };
    evaluation.label_ids = tensor_of("labels");
    evaluation.predictions = torch::one_hot(tensor_of("predictions"), classes).to(torch::kFloat);
    for (const auto& [name, average] : {std::pair{"binary", Average::Binary}, std::pair{"macro", Average::Macro},
                                        std::pair{"weighted", Average::Weighted}}) {
      if (classes != 2 && average == Average::Binary) continue;
      ClassificationMetricsOptions options;
      options.metrics = {"accuracy", "matthews_correlation", "precision", "recall", "f1"};
      options.average = average;
      for (const auto& [metric, value] : classification_metrics(options)(evaluation)) {
        const std::string of_average = metric + "_" + name;
        const double expected = want.at(want.contains(of_average) ? of_average : metric);
        EXPECT_NEAR(value, expected, 1e-12) << classes << " classes: " << metric << ", " << name;
      }
    }
  }
}

TEST(HuggingFaceRules, MetricsOfSeveralLabelsAreThoseOfScikitLearn) {
  for (const auto& want : recorded_rules().at("multi_labels")) {
    std::vector<torch::Tensor> logits, labels;
    for (const auto& row : want.at("logits")) logits.push_back(torch::tensor(row.get<std::vector<double>>()));
    for (const auto& row : want.at("labels")) labels.push_back(torch::tensor(row.get<std::vector<double>>()));
    const Metrics got = multi_label_metrics()({torch::stack(logits), torch::stack(labels), 0});
    for (const auto& [metric, value] : got) {
      if (!want.contains(metric)) continue;  // scikit-learn has no F1 of a single column
      EXPECT_NEAR(value, want.at(metric).get<double>(), 1e-12) << metric;
    }
  }
  EXPECT_THROW(multi_label_metrics()({torch::zeros({2, 3}), torch::zeros({2}), 0}), Error);
}

TEST(HuggingFaceRules, CorrelationIsThatOfSciPy) {
  const auto& want = recorded_rules().at("correlation").at(0);
  EvalPrediction evaluation;
  evaluation.predictions = torch::tensor(want.at("x").get<std::vector<double>>(), torch::kDouble).unsqueeze(1);
  evaluation.label_ids = torch::tensor(want.at("y").get<std::vector<double>>(), torch::kDouble);
  const Metrics got = regression_metrics()(evaluation);
  EXPECT_NEAR(got.at("pearson"), want.at("pearson").get<double>(), 1e-12);
  EXPECT_NEAR(got.at("mse"), want.at("mse").get<double>(), 1e-12);
}

TEST(HuggingFaceRules, RecordedRulesAreThoseOfToday) { expect_facts_of_today("rules"); }

}  // namespace
}  // namespace lockstep
