#include "lockstep/replicas/scatter.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/replicas/gather.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::contains;
using replica_tests::text_of_error;

std::vector<ReplicaDevice> cpu_replicas(int count) {
  std::vector<ReplicaDevice> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back("cpu:" + std::to_string(i));
  return devices;
}

struct ChunkRule {
  const char* name;
  std::int64_t size;
  int devices;
  std::vector<std::int64_t> want;
  friend std::ostream& operator<<(std::ostream& out, const ChunkRule& rule) { return out << rule.name; }
};
class ScatterSizes : public ::testing::TestWithParam<ChunkRule> {};

TEST_P(ScatterSizes, AreThoseOfTorchChunk) {
  const auto chunks = scatter(torch::arange(GetParam().size), cpu_replicas(GetParam().devices));
  std::vector<std::int64_t> sizes;
  for (const auto& chunk : chunks) sizes.push_back(chunk.size(0));
  EXPECT_EQ(sizes, GetParam().want);
  EXPECT_TRUE(torch::cat(chunks).equal(torch::arange(GetParam().size)));
}
INSTANTIATE_TEST_SUITE_P(Table, ScatterSizes,
                         ::testing::Values(ChunkRule{"even", 8, 2, {4, 4}}, ChunkRule{"last_is_smaller", 7, 2, {4, 3}},
                                           ChunkRule{"fewer_chunks_than_devices", 5, 4, {2, 2, 1}},
                                           ChunkRule{"fewer_samples_than_devices", 1, 4, {1}},
                                           ChunkRule{"six_over_four", 6, 4, {2, 2, 2}},
                                           ChunkRule{"empty_batch", 0, 3, {0, 0, 0}},
                                           ChunkRule{"one_device", 3, 1, {3}}),
                         [](const auto& test) { return test.param.name; });

TEST(Scatter, CutsEveryTensorInsideAndCopiesTheRest) {
  using Value = std::tuple<at::Tensor, std::map<std::string, at::Tensor>, std::vector<at::Tensor>, int, std::string,
                           c10::optional<at::Tensor>>;
  const at::Tensor t = torch::arange(6).reshape({3, 2});
  const auto values = scatter(Value{t, {{"a", t}, {"b", t + 1}}, {t, t}, 7, "text", t}, cpu_replicas(2));
  ASSERT_EQ(values.size(), 2U);
  const auto& [tensor, map, list, number, text, optional] = values[1];
  EXPECT_TRUE(tensor.equal(t.slice(0, 2, 3)));
  EXPECT_TRUE(map.at("b").equal(t.slice(0, 2, 3) + 1));
  EXPECT_TRUE(list[1].equal(t.slice(0, 2, 3)));
  EXPECT_EQ(number, 7);
  EXPECT_EQ(text, "text");
  EXPECT_TRUE(optional->equal(t.slice(0, 2, 3)));
}

TEST(Scatter, ChunksOfACpuReplicaAreViews) {
  const at::Tensor t = torch::zeros({4, 2});
  EXPECT_EQ(scatter(t, cpu_replicas(2))[1].data_ptr(), t[2].data_ptr());
}

TEST(Scatter, GoesAlongAnotherDimension) {
  const at::Tensor t = torch::arange(10).reshape({2, 5});
  const auto chunks = scatter(t, cpu_replicas(2), 1);
  EXPECT_TRUE(chunks[0].equal(t.slice(1, 0, 3)));
  EXPECT_TRUE(chunks[1].equal(t.slice(1, 3, 5)));
  EXPECT_TRUE(scatter(t, cpu_replicas(2), -1)[1].equal(chunks[1]));
}

TEST(Scatter, GivesEachDeviceAValueWithoutTensors) { EXPECT_EQ(scatter(5, cpu_replicas(3)).size(), 3U); }

TEST(Scatter, RefusesTensorsThatDoNotBelongTogether) {
  const auto pair = std::make_pair(torch::zeros({4, 2}), torch::zeros({1, 2}));
  const std::string text = text_of_error([&] { scatter(pair, cpu_replicas(2)); });
  EXPECT_TRUE(contains(text, "tensors [4, 2] and [1, 2] of one batch are cut into 2 and 1 chunks")) << text;
}

TEST(Scatter, RefusesScalarsDimensionsAndNoDevices) {
  EXPECT_TRUE(contains(text_of_error([] { scatter(torch::tensor(1.0), cpu_replicas(2)); }),
                       "chunk expects at least a 1-dimensional tensor"));
  EXPECT_TRUE(contains(text_of_error([] { scatter(torch::zeros({2}), cpu_replicas(2), 1); }), "no dimension 1"));
  EXPECT_TRUE(contains(text_of_error([] { scatter(torch::zeros({2}), cpu_replicas(0)); }), "no device"));
}

TEST(Gather, IsTheInverseOfScatterAndDifferentiable) {
  at::Tensor t = torch::arange(7.0).requires_grad_();
  const at::Tensor back = gather(scatter(t, cpu_replicas(3)), "cpu:0");
  EXPECT_TRUE(back.equal(t));
  (back * torch::arange(7.0)).sum().backward();
  EXPECT_TRUE(t.grad().equal(torch::arange(7.0)));
}

TEST(Gather, MakesAVectorOfScalars) {
  const std::vector<at::Tensor> losses{torch::tensor(2.0), torch::tensor(3.0)};
  EXPECT_TRUE(gather(losses, "cpu:0").equal(torch::tensor({2.0, 3.0})));
  EXPECT_TRUE(gather(std::vector<at::Tensor>{torch::tensor(2.0)}, "cpu:0").equal(torch::tensor({2.0})));
}

TEST(Gather, KeepsStructuresAndMissingTensors) {
  using Value = std::tuple<std::map<std::string, at::Tensor>, at::Tensor, int>;
  const Value a{{{"x", torch::ones({1, 2})}}, at::Tensor(), 4};
  const Value b{{{"x", torch::zeros({2, 2})}}, at::Tensor(), 5};
  const auto [map, missing, number] = gather(std::vector<Value>{a, b}, "cpu:0");
  EXPECT_TRUE(map.at("x").equal(torch::tensor({{1.F, 1.F}, {0.F, 0.F}, {0.F, 0.F}})));
  EXPECT_FALSE(missing.defined());
  EXPECT_EQ(number, 4);
}

TEST(Gather, PutsTorchScriptValuesTogether) {
  const auto value = [](double x) {
    return c10::IValue(
        c10::ivalue::Tuple::create({torch::full({1}, x), c10::List<at::Tensor>({torch::full({2}, x)}), 3}));
  };
  const c10::IValue both = gather(std::vector<c10::IValue>{value(1), value(2)}, "cpu:0");
  const auto& elements = both.toTupleRef().elements();
  EXPECT_TRUE(elements[0].toTensor().equal(torch::tensor({1.F, 2.F})));
  EXPECT_TRUE(elements[1].toTensorList().get(0).equal(torch::tensor({1.F, 1.F, 2.F, 2.F})));
  EXPECT_EQ(elements[2].toInt(), 3);
}

TEST(Gather, RefusesWhatDoesNotFit) {
  const std::vector<at::Tensor> shapes{torch::zeros({2, 3}), torch::zeros({2, 4})};
  EXPECT_TRUE(
      contains(text_of_error([&] { gather(shapes, "cpu:0"); }), "output [2, 4] of replica 1 does not fit [2, 3]"));
  using Map = std::map<std::string, at::Tensor>;
  const std::vector<Map> maps{{{"a", torch::zeros({1})}}, {{"b", torch::zeros({1})}}};
  EXPECT_TRUE(contains(text_of_error([&] { gather(maps, "cpu:0"); }), "other keys"));
  const std::vector<std::vector<at::Tensor>> lists{{torch::zeros({1})}, {}};
  EXPECT_TRUE(
      contains(text_of_error([&] { gather(lists, "cpu:0"); }), "replica 1 returned a list of 0, but replica 0 one"));
  EXPECT_TRUE(contains(text_of_error([] { gather(std::vector<at::Tensor>{}, "cpu:0"); }), "no outputs"));
}

// Each of them would fit by position alone.
TEST(Gather, RefusesOtherStructuresInside) {
  const at::Tensor t = torch::zeros({1});
  using Maps = std::tuple<at::Tensor, std::map<std::string, at::Tensor>>;
  EXPECT_TRUE(contains(text_of_error([&] {
                         gather(std::vector<Maps>{{t, {{"a", t}}}, {t, {{"b", t}}}}, "cpu:0");
                       }),
                       "other keys"));
  using Lists = std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>;
  EXPECT_TRUE(contains(text_of_error([&] {
                         gather(std::vector<Lists>{{{t, t}, {t}}, {{t}, {t, t}}}, "cpu:0");
                       }),
                       "replica 1 returned a list of 1, but replica 0 one of 2"));
  using Numbered = std::map<int, at::Tensor>;
  EXPECT_TRUE(contains(text_of_error([&] {
                         gather(std::vector<Numbered>{{{1, t}}, {{2, t}}}, "cpu:0");
                       }),
                       "other keys"));
  const auto dict = [&](const std::string& key) {
    c10::Dict<std::string, at::Tensor> values;
    values.insert(key, t);
    return c10::IValue(c10::ivalue::Tuple::create({c10::IValue(values)}));
  };
  EXPECT_TRUE(contains(text_of_error([&] {
                         gather(std::vector<c10::IValue>{dict("a"), dict("b")}, "cpu:0");
                       }),
                       "other keys"));
}

TEST(Gather, PutsMapsTogetherByKey) {
  const at::Tensor x = torch::ones({1}), y = torch::zeros({1});
  using Map = std::unordered_map<std::string, at::Tensor>;
  const std::vector<std::string> keys{"a", "bb", "ccc", "d"};
  Map forward, backward;
  for (auto key = keys.begin(); key != keys.end(); ++key) forward[*key] = *key == "a" ? x : y;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) backward[*key] = *key == "a" ? x : y;
  const Map map = gather(std::vector<Map>{forward, backward}, "cpu:0");
  for (const auto& key : keys) EXPECT_TRUE(map.at(key).equal(torch::cat({forward[key], backward[key]}))) << key;
  const auto dict = [&](const std::vector<std::string>& order) {
    c10::Dict<std::string, at::Tensor> values;
    for (const auto& key : order) values.insert(key, key == "a" ? x : y);
    return c10::IValue(values);
  };
  const c10::IValue both = gather(std::vector<c10::IValue>{dict({"a", "b"}), dict({"b", "a"})}, "cpu:0");
  EXPECT_TRUE(both.toGenericDict().at("a").toTensor().equal(torch::ones({2})));
  EXPECT_TRUE(both.toGenericDict().at("b").toTensor().equal(torch::zeros({2})));
}

TEST(ReplicaDevice, ReadsNames) {
  EXPECT_EQ(ReplicaDevice("cpu:3").name(), "cpu:3");
  EXPECT_EQ(ReplicaDevice("cuda").name(), "cuda:0");
  EXPECT_TRUE(ReplicaDevice("cpu:3").tensor_device() == at::kCPU);
  for (const char* bad : {"", "tpu:0", "cpu:", "cpu:-1", "cpu:x", "cpu:1x", "cpu:99999999999"}) {
    EXPECT_TRUE(contains(text_of_error([&] { ReplicaDevice device(bad); }), "not a device for a replica")) << bad;
  }
  EXPECT_FALSE(all_replica_devices().empty());
}

}  // namespace
}  // namespace lockstep
