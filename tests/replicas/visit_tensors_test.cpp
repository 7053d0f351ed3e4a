#include "lockstep/detail/tensor/visit_tensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/replicas/data_parallel.h"

// A type of a foreign library, and the overload of visit_tensors that its user writes.
namespace elsewhere {

struct VAEOutput {
  at::Tensor reconstruction, mean;
  std::vector<at::Tensor> layers;
};
template <typename Visit>
void visit_tensors(const VAEOutput& output, Visit&& visit) {
  visit(output.reconstruction);
  visit(output.mean);
  lockstep::visit_tensors(output.layers, visit);
}

// A type whose overload is not a template.
struct Pooled {
  at::Tensor pooled;
};
inline void visit_tensors(const Pooled& output, const std::function<void(const at::Tensor&)>& visit) {
  visit(output.pooled);
}

struct AutoEncoderImpl : torch::nn::Cloneable<AutoEncoderImpl> {
  AutoEncoderImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::full({2}, 3.F)); }
  VAEOutput forward(const at::Tensor& x) { return {x * weight, x.sum(1), {x + weight}}; }
  at::Tensor weight;
};
TORCH_MODULE(AutoEncoder);

}  // namespace elsewhere

namespace lockstep {
namespace {

template <typename T>
int count_tensors(const T& value) {
  int count = 0;
  visit_tensors(value, [&](const at::Tensor&) { ++count; });
  return count;
}

struct Output {
  at::Tensor logits, hidden;
  template <typename Visit>
  void visit_tensors(Visit&& visit) const {
    visit(logits);
    visit(hidden);
  }
};

TEST(VisitTensors, FindsTensorsInsideWhateverAForwardReturns) {
  const at::Tensor t = torch::zeros({2});
  EXPECT_EQ(count_tensors(t), 1);
  EXPECT_EQ(count_tensors(std::make_tuple(t, 3, t)), 2);
  EXPECT_EQ(count_tensors(std::make_pair(t, std::string("text"))), 1);
  EXPECT_EQ(count_tensors(std::vector<at::Tensor>{t, t, t}), 3);
  EXPECT_EQ(count_tensors(std::map<std::string, at::Tensor>{{"a", t}, {"b", t}}), 2);
  EXPECT_EQ(count_tensors(std::optional<at::Tensor>(t)), 1);
  EXPECT_EQ(count_tensors(std::optional<at::Tensor>()), 0);
  EXPECT_EQ(count_tensors(std::vector<std::tuple<at::Tensor, std::vector<at::Tensor>>>{{t, {t, t}}, {t, {}}}), 4);
  EXPECT_EQ(count_tensors(c10::IValue(c10::ivalue::Tuple::create({t, c10::IValue(std::vector<at::Tensor>{t})}))), 2);
  EXPECT_EQ(count_tensors(Output{t, t}), 2);
  EXPECT_EQ(count_tensors(1.5), 0);
}

TEST(VisitTensors, FindsWhatIsSaidOfSomebodyElsesStruct) {
  const at::Tensor t = torch::zeros({2});
  const elsewhere::VAEOutput output{t, t, {t, t}};
  EXPECT_EQ(count_tensors(output), 4);
  EXPECT_EQ(count_tensors(std::map<int, std::vector<std::optional<elsewhere::VAEOutput>>>{{0, {output, {}}}}), 4);
  EXPECT_EQ(count_tensors(std::make_tuple(elsewhere::Pooled{t}, 1)), 1);
  const auto replaced = with_tensors(output, {t + 1, t + 2, t + 3, t + 4});
  EXPECT_EQ(replaced.mean[0].item<float>(), 2);
  EXPECT_EQ(replaced.layers[1][0].item<float>(), 4);
}

TEST(VisitTensors, KnowsTheExamplesOfTorchData) {
  const at::Tensor t = torch::zeros({2});
  EXPECT_EQ(count_tensors(torch::data::Example<>(t, t)), 2);
  EXPECT_EQ(count_tensors(torch::data::TensorExample(t)), 1);
  EXPECT_EQ(count_tensors(std::vector<torch::data::Example<at::Tensor, std::int64_t>>{{t, 1}, {t, 2}}), 2);
  const auto replaced = with_tensors(torch::data::Example<>(t, t), {t + 1, t + 2});
  EXPECT_EQ(replaced.target[0].item<float>(), 2);
}

TEST(VisitTensors, LetsWrappersReturnSomebodyElsesStruct) {
  elsewhere::AutoEncoder model;
  const at::Tensor x = torch::ones({4, 2});
  DistributedDataParallelOptions options;
  options.process_group = make_communicator("thread", {});
  DistributedDataParallel ddp(model, options);
  ddp(x).reconstruction.sum().backward();
  EXPECT_EQ(ddp.last_step().unused_parameters, 0U);
  EXPECT_EQ(model->weight.grad()[0].item<float>(), 4);
  DataParallel dp(model, {"cpu:0", "cpu:1"});
  const elsewhere::VAEOutput output = dp(x);
  EXPECT_TRUE(output.reconstruction.equal(torch::full({4, 2}, 3.F)));
  EXPECT_TRUE(output.layers[0].equal(torch::full({4, 2}, 4.F)));
}

}  // namespace
}  // namespace lockstep
