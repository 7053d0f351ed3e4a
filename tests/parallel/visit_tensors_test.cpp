#include "lockstep/parallel/visit_tensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

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

}  // namespace
}  // namespace lockstep
