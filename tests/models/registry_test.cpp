#include "lockstep/models/registry.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"

namespace lockstep {
namespace {

class EveryModel : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> small_models() {
  std::vector<std::string> names;
  for (const ModelInfo& info : registered_models()) {
    const bool is_large = info.name.rfind("gpt2", 0) == 0 && info.name != "gpt2-tiny";
    if (info.name != "bert-base" && !is_large) names.push_back(info.name);
  }
  return names;
}

TEST_P(EveryModel, RunsOnItsOwnRandomBatchAndGivesEveryParameterAGradient) {
  torch::manual_seed(1);
  const std::shared_ptr<Model> model = make_model(GetParam());
  const Batch batch = model->random_batch({/*size=*/3, /*sequence_length=*/8, /*seed=*/5});
  for (const InputField& field : model->inputs()) {
    ASSERT_TRUE(batch.count(field.name)) << field.name;
    const torch::Tensor& tensor = batch.at(field.name);
    EXPECT_EQ(tensor.scalar_type(), field.dtype) << field.name;
    ASSERT_EQ(tensor.dim(), static_cast<std::int64_t>(field.shape.size())) << field.name;
    for (std::size_t i = 0; i < field.shape.size(); ++i) {
      if (field.shape[i] >= 0) {
        EXPECT_EQ(tensor.size(i), field.shape[i]) << field.name;
      }
    }
    EXPECT_EQ(tensor.size(0), 3) << field.name;
  }
  const LossSum loss = model->loss(model->forward(batch), batch);
  EXPECT_GT(loss.count.item<std::int64_t>(), 0);
  loss.mean().backward();
  for (const auto& parameter : model->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
  }
}

TEST_P(EveryModel, ACloneHasTheSameValuesAndItsOwnMemory) {
  const std::shared_ptr<Model> model = make_model(GetParam());
  model->eval();
  const Batch batch = model->random_batch({2, 8, 3});
  const auto copy = std::dynamic_pointer_cast<Model>(model->clone());
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copy->is_training());
  EXPECT_TRUE(torch::equal(copy->forward(batch), model->forward(batch)));
  const auto copied = copy->named_parameters();
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_NE(copied[parameter.key()].data_ptr(), parameter.value().data_ptr()) << parameter.key();
  }
  copy->to(torch::kDouble);
  for (const auto& parameter : model->parameters()) EXPECT_EQ(parameter.scalar_type(), torch::kFloat);
}

TEST_P(EveryModel, LossesOfTwoHalvesAddUpToThatOfTheWhole) {
  const std::shared_ptr<Model> model = make_model(GetParam());
  model->eval();  // in training, batch norm mixes the samples of a batch
  const Batch batch = model->random_batch({4, 8, 3, /*mixed_lengths=*/true});
  const LossSum whole = model->loss(model->forward(batch), batch);
  double sum = 0, count = 0;
  for (const auto& [first, last] : {std::pair(0, 1), std::pair(1, 4)}) {
    Batch part;
    for (const auto& [name, tensor] : batch) part[name] = tensor.slice(0, first, last);
    const LossSum loss = model->loss(model->forward(part), part);
    sum += loss.sum.item<double>();
    count += loss.count.item<double>();
  }
  EXPECT_EQ(count, whole.count.item<double>());
  EXPECT_NEAR(sum, whole.sum.item<double>(), 1e-5 * std::abs(sum));
}

TEST_P(EveryModel, TheSameSeedGivesTheSameBatch) {
  const std::shared_ptr<Model> model = make_model(GetParam());
  const Batch a = model->random_batch({4, 8, 3}), b = model->random_batch({4, 8, 3}),
              c = model->random_batch({4, 8, 4});
  bool differs = false;
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
    differs = differs || !torch::equal(tensor, c.at(name));
  }
  EXPECT_TRUE(differs);
  EXPECT_THROW(model->random_batch({0, 8, 3}), Error);
}

TEST_P(EveryModel, NamesTheTensorThatTheBatchLacks) {
  const std::shared_ptr<Model> model = make_model(GetParam());
  Batch batch = model->random_batch({2, 8, 3});
  const torch::Tensor output = model->forward(batch);
  batch.erase("labels");
  try {
    model->loss(output, batch);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("labels"), std::string::npos) << error.what();
  }
  EXPECT_THROW(model->forward({}), Error);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryModel, ::testing::ValuesIn(small_models()), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST(Registry, ListsTheKnownNamesWhenOneIsUnknown) {
  try {
    make_model("bert-tniy");
    FAIL() << "no error";
  } catch (const Error& error) {
    for (const ModelInfo& info : registered_models()) {
      EXPECT_NE(error.fix().find(info.name), std::string::npos) << error.what();
    }
  }
}

TEST(Registry, RefusesOptionsThatTheModelDoesNotHave) {
  ModelOptions options;
  options.features = 10;
  EXPECT_THROW(make_model("convnet", options), Error);
  options = {};
  options.side = 32;
  EXPECT_THROW(make_model("mlp", options), Error);
}

TEST(Registry, MakesTextModelsByNameForATask) {
  LoadOptions options;
  options.labels = {"bad", "good"};
  options.tokenizer_size = 100;
  const auto classifier = load_or_make_model("bert-tiny", TextTask::SequenceClassification, options, 7).model;
  EXPECT_EQ(labels_of(*classifier), options.labels);
  EXPECT_EQ(max_positions_of(*classifier), 512);
  EXPECT_EQ(classifier->named_parameters()["bert.embeddings.word_embeddings.weight"].size(0), 100);
  EXPECT_NE(config_json_of(*classifier).find("\"BertForSequenceClassification\""), std::string::npos);
  EXPECT_NE(config_json_of(*classifier).find("\"pad_token_id\": 7"), std::string::npos);
  const auto masked = load_or_make_model("bert-tiny", TextTask::MaskedLanguageModel, options, 0).model;
  EXPECT_TRUE(labels_of(*masked).empty());
  const auto causal = load_or_make_model("gpt2-tiny", TextTask::CausalLanguageModel, options, std::nullopt).model;
  EXPECT_EQ(max_positions_of(*causal), 1024);
  const auto gpt2 = load_or_make_model("gpt2-tiny", TextTask::SequenceClassification, options, 7).model;
  EXPECT_EQ(labels_of(*gpt2), options.labels);
  EXPECT_EQ(max_positions_of(*make_model("mlp")), 0);
  EXPECT_EQ(config_json_of(*make_model("mlp")), "");
}

TEST(Registry, ANameThatIsNeitherFolderNorModelListsThoseThatDoTheTask) {
  const auto refusal = [](const std::string& name, TextTask task) -> std::string {
    try {
      load_or_make_model(name, task, {}, 0);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string unknown = refusal("bert-base-cased", TextTask::CausalLanguageModel);
  EXPECT_NE(unknown.find("there is no folder bert-base-cased, nor a model of that name"), std::string::npos);
  EXPECT_NE(unknown.find("gpt2, gpt2-tiny"), std::string::npos) << unknown;
  EXPECT_EQ(unknown.find("bert-mini"), std::string::npos) << unknown;
  EXPECT_NE(refusal("bert-mini", TextTask::CausalLanguageModel).find("does not predict the next token"),
            std::string::npos);
  EXPECT_NE(refusal("gpt2", TextTask::MaskedLanguageModel).find("does not predict masked words"), std::string::npos);
}

TEST(Registry, MlpOfNslKddHasANameThatSaysSo) {
  EXPECT_EQ(make_model("mlp-kdd")->parameters()[0].sizes(), make_model("mlp")->parameters()[0].sizes());
}

TEST(Registry, MlpTakesItsSizes) {
  ModelOptions options;
  options.features = 113;
  options.hidden = {7, 5};
  options.num_labels = 3;
  const auto parameters = make_model("mlp", options)->named_parameters();
  ASSERT_EQ(parameters.size(), 6u);
  EXPECT_EQ(parameters["fc1.weight"].sizes(), torch::IntArrayRef({7, 113}));
  EXPECT_EQ(parameters["fc3.bias"].sizes(), torch::IntArrayRef({3}));
}

TEST(Registry, MlpWideHas31Point6MegabytesOfGradients) {
  std::int64_t bytes = 0;
  for (const auto& parameter : make_model("mlp-wide")->parameters()) bytes += parameter.numel() * 4;
  EXPECT_NEAR(bytes / 1e6, 31.6, 0.05);
}

TEST(Mlp, MatchesTheFormulaByHand) {
  Mlp mlp(MlpOptions{2, {2}, 2});
  torch::NoGradGuard no_grad;
  auto parameters = mlp->named_parameters();
  parameters["fc1.weight"].copy_(torch::tensor({{1.f, 2.f}, {-1.f, 0.f}}));
  parameters["fc1.bias"].copy_(torch::tensor({0.5f, 0.f}));
  parameters["fc2.weight"].copy_(torch::tensor({{1.f, 10.f}, {2.f, 20.f}}));
  parameters["fc2.bias"].copy_(torch::tensor({0.f, 1.f}));
  // relu([1*1 + 2*3 + 0.5, -1]) = [7.5, 0]
  EXPECT_TRUE(torch::equal(mlp->forward(torch::tensor({{1.f, 3.f}})), torch::tensor({{7.5f, 16.f}})));
  EXPECT_THROW(mlp->forward(torch::zeros({1, 3})), Error);
  EXPECT_THROW(Mlp(MlpOptions{2, {0}, 2}), Error);
}

TEST(Mlp, RefusesLabelsOutsideTheHead) {
  Mlp mlp;
  Batch batch = mlp->random_batch({2});
  for (const std::int64_t label : {std::int64_t{2}, std::int64_t{-1}}) {
    batch["labels"] = torch::tensor({std::int64_t{0}, label});
    try {
      mlp->loss(mlp->forward(batch.at("features")), batch);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find("label " + std::to_string(label) + " of row 1"), std::string::npos);
    }
  }
  batch["labels"] = torch::tensor({std::int64_t{1}, std::int64_t{-100}});
  EXPECT_EQ(mlp->loss(mlp->forward(batch.at("features")), batch).count.item<std::int64_t>(), 1);
}

// Layers of PyTorch's own classes, made in the same order from the same seed, are the reference.
TEST(ConvNet, IsTheTutorialNetwork) {
  torch::manual_seed(7);
  ConvNet net;
  torch::manual_seed(7);
  const auto block = [](int in, int out) {
    return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 5).stride(1).padding(2)),
                                 torch::nn::BatchNorm2d(out), torch::nn::ReLU(),
                                 torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
  };
  torch::nn::Sequential layer1 = block(1, 16), layer2 = block(16, 32);
  torch::nn::Linear fc(7 * 7 * 32, 10);
  const torch::Tensor images = torch::rand({4, 1, 28, 28});
  const torch::Tensor hidden = layer2->forward(layer1->forward(images));
  EXPECT_TRUE(torch::equal(net->forward(images), fc->forward(hidden.reshape({4, -1}))));
  const std::vector<std::string> names = net->named_parameters().keys();
  EXPECT_EQ(names, (std::vector<std::string>{"layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias",
                                             "layer2.0.weight", "layer2.0.bias", "layer2.1.weight", "layer2.1.bias",
                                             "fc.weight", "fc.bias"}));
  EXPECT_EQ(net->named_buffers().keys().front(), "layer1.1.running_mean");
}

TEST(ConvNet, RefusesImagesOfAnotherShape) {
  ConvNet net;
  EXPECT_THROW(net->forward(torch::zeros({2, 3, 28, 28})), Error);
  EXPECT_THROW(net->forward(torch::zeros({2, 28, 28})), Error);
  EXPECT_THROW(ConvNet(ConvNetOptions{1, 30, 10}), Error);
  EXPECT_EQ(ConvNet(ConvNetOptions{3, 32, 5})->forward(torch::zeros({2, 3, 32, 32})).size(1), 5);
}

}  // namespace
}  // namespace lockstep
