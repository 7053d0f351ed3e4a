// Tests one rank's part of an update, with several ranks in one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/update/fused_segment.h"
#include "tests/optim/fused_arithmetic.h"

namespace lockstep {
namespace {

using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;

const std::vector<std::vector<std::int64_t>> kShapes{{3, 5}, {64}, {1}, {20, 7}, {33}};
constexpr std::size_t kUnused = 2;  // no rank has a gradient for it in odd steps

std::int64_t aligned(std::int64_t numel) { return (numel + 15) / 16 * 16; }

/// Ranks that share weights, with a bucket of gradients and an optimizer each.
template <typename Optimizer, typename Options>
class Job {
 public:
  Job(int ranks, const Options& options, at::ScalarType gradient_dtype) : ranks_(ranks) {
    torch::manual_seed(3);
    for (const auto& shape : kShapes) {
      offsets_.push_back(numel_);
      at::IntArrayRef sizes(shape);
      numel_ += aligned(c10::multiply_integers(sizes));
    }
    weights_ = torch::zeros({numel_});
    for (int rank = 0; rank < ranks; ++rank) {
      buckets_.push_back(torch::zeros({numel_}, gradient_dtype));
      parameters_.push_back(views(weights_));
      optimizers_.push_back(std::make_unique<Optimizer>(groups(parameters_.back()), options));
    }
    for (auto& parameter : parameters_[0]) parameter.detach().normal_();
    for (const auto& parameter : parameters_[0]) whole_.push_back(parameter.detach().clone().set_requires_grad(true));
    one_ = std::make_unique<Optimizer>(groups(whole_), options);
  }

  void shard() {
    for (int rank = 0; rank < ranks_; ++rank) {
      FusedSegment segment{parameters_[rank], offsets_, numel_ * rank / ranks_, numel_ * (rank + 1) / ranks_};
      optimizers_[rank]->shard({segment});
    }
  }

  static std::vector<OptimizerParamGroup> groups(const std::vector<at::Tensor>& parameters) {
    std::vector<OptimizerParamGroup> result;
    result.emplace_back(std::vector<at::Tensor>{parameters[0], parameters[1], parameters[2]});
    Options other(0.3);
    other.weight_decay(0.2);
    result.emplace_back(std::vector<at::Tensor>{parameters[3], parameters[4]}, std::make_unique<Options>(other));
    return result;
  }
  std::vector<at::Tensor> views(const at::Tensor& memory) const {
    std::vector<at::Tensor> result;
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      const std::int64_t numel = c10::multiply_integers(at::IntArrayRef(kShapes[i]));
      result.push_back(memory.narrow(0, offsets_[i], numel).view(kShapes[i]).detach());
      if (memory.scalar_type() == torch::kFloat) result.back().set_requires_grad(true);
    }
    return result;
  }
  NamedParameters names(const std::vector<at::Tensor>& parameters) const {
    NamedParameters result;
    for (std::size_t i = 0; i < parameters.size(); ++i) result.emplace_back("p" + std::to_string(i), parameters[i]);
    return result;
  }

  void step(int number, double factor) {
    const bool skips = number % 2 == 1;
    for (auto& bucket : buckets_) {
      for (auto& gradient : views(bucket)) gradient.detach().normal_();
      if (skips) views(bucket)[kUnused].detach().zero_();
    }
    reduce_into_whole(skips, factor);
    std::vector<void*> sources;
    for (auto& bucket : buckets_) sources.push_back(bucket.data_ptr());
    SegmentUpdate update;
    update.weights = update.weights_out = weights_.data_ptr();
    update.gradient.sources = sources.data();
    update.gradient.num_sources = sources.size();
    const bool brain = buckets_[0].scalar_type() == torch::kBFloat16;
    update.gradient.type = brain ? ElementType::BFloat16 : ElementType::Float;
    update.gradient.divisor = ranks_;
    update.gradient.factor = factor;
    update.gradient.zero = true;
    update.skip.assign(kShapes.size(), false);
    update.skip[kUnused] = skips;
    for (auto& optimizer : optimizers_) optimizer->update_segment(0, update);
  }

  void reduce_into_whole(bool skips, double factor) {
    at::Tensor sum = buckets_[0].to(torch::kFloat, false, true);
    for (int rank = 1; rank < ranks_; ++rank) sum.add_(buckets_[rank].to(torch::kFloat));
    sum.div_(ranks_);
    if (factor != 1) sum.mul_(factor);
    const auto gradients = views(sum);
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      whole_[i].mutable_grad() = skips && i == kUnused ? at::Tensor() : gradients[i].detach();
    }
    one_->step();
  }

  void check() {
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      EXPECT_EQ(relative_difference(parameters_[0][i], whole_[i]), 0) << "parameter " << i;
    }
    for (auto& bucket : buckets_) {
      for (auto& gradient : views(bucket)) EXPECT_EQ(gradient.count_nonzero().template item<std::int64_t>(), 0);
    }
    std::vector<NamedState> parts;
    for (int rank = 0; rank < ranks_; ++rank) parts.push_back(optimizers_[rank]->named_state(names(parameters_[rank])));
    const NamedState merged = merge_states(parts);
    const NamedState want = one_->named_state(names(whole_));
    ASSERT_EQ(merged.size(), want.size());
    for (const auto& [name, state] : want) {
      EXPECT_EQ(merged.at(name).step, state.step) << name;
      ASSERT_EQ(merged.at(name).tensors.size(), state.tensors.size());
      for (const auto& [kind, tensor] : state.tensors) {
        EXPECT_EQ(relative_difference(merged.at(name).tensors.at(kind), tensor), 0) << name << " " << kind;
      }
    }
  }

  int ranks_;
  std::int64_t numel_ = 0;
  std::vector<std::int64_t> offsets_;
  at::Tensor weights_;
  std::vector<at::Tensor> buckets_;
  std::vector<std::vector<at::Tensor>> parameters_;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::vector<at::Tensor> whole_;
  std::unique_ptr<Optimizer> one_;
};

using AdamWJob = Job<AdamW, AdamWOptions>;
using SgdJob = Job<SGD, SGDOptions>;

class Segments : public ::testing::TestWithParam<std::tuple<int, at::ScalarType>> {};

TEST_P(Segments, AdamWEqualsReduceThenUpdate) {
  const auto [ranks, dtype] = GetParam();
  AdamWJob job(ranks, AdamWOptions(0.1).amsgrad(true), dtype);
  job.shard();
  for (int step = 0; step < 20; ++step) job.step(step, step < 10 ? 1 : 0.25);
  job.check();
}

TEST_P(Segments, SgdEqualsReduceThenUpdate) {
  const auto [ranks, dtype] = GetParam();
  SgdJob job(ranks, SGDOptions(0.1).momentum(0.9).nesterov(true), dtype);
  job.shard();
  for (int step = 0; step < 20; ++step) job.step(step, step < 10 ? 1 : 0.25);
  job.check();
}

INSTANTIATE_TEST_SUITE_P(Ranks, Segments,
                         ::testing::Combine(::testing::Values(1, 2, 3, 7),
                                            ::testing::Values(torch::kFloat, torch::kBFloat16)),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "_" +
                                  c10::toString(std::get<1>(test.param));
                         });

TEST(Shard, KeepsThePartOfEarlierState) {
  AdamWJob job(3, AdamWOptions(0.1), torch::kFloat);
  // Three unsharded steps on every rank's copy of the optimizer; the weights are shared, so only rank 0 moves them.
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradients = torch::randn({job.numel_});
    const at::Tensor before = job.weights_.clone();
    at::Tensor after;
    for (int rank = 0; rank < 3; ++rank) {
      job.weights_.copy_(before);
      const auto views = job.views(gradients);
      for (std::size_t i = 0; i < views.size(); ++i) job.parameters_[rank][i].mutable_grad() = views[i].detach();
      job.optimizers_[rank]->step();
    }
    const auto views = job.views(gradients);
    for (std::size_t i = 0; i < views.size(); ++i) job.whole_[i].mutable_grad() = views[i].detach();
    job.one_->step();
  }
  job.shard();
  for (auto& optimizer : job.optimizers_) EXPECT_TRUE(optimizer->state().empty());
  for (int step = 0; step < 4; ++step) job.step(step, 1);
  job.check();
}

class LoadedState : public ::testing::TestWithParam<bool> {};

TEST_P(LoadedState, IsCutAgain) {
  const bool joins_first = GetParam();
  AdamWJob two(2, AdamWOptions(0.1), torch::kFloat);
  two.shard();
  for (int step = 0; step < 5; ++step) two.step(step, 1);
  std::vector<NamedState> parts;
  for (int rank = 0; rank < 2; ++rank)
    parts.push_back(two.optimizers_[rank]->named_state(two.names(two.parameters_[rank])));
  const NamedState saved = merge_states(parts);

  AdamWJob three(3, AdamWOptions(0.1), torch::kFloat);
  three.shard();
  three.weights_.copy_(two.weights_);
  for (std::size_t i = 0; i < three.whole_.size(); ++i) three.whole_[i].detach().copy_(two.whole_[i].detach());
  for (int rank = 0; rank < 3; ++rank) {
    const auto names = three.names(three.parameters_[rank]);
    joins_first ? three.optimizers_[rank]->load_named_state(names, saved)
                : three.optimizers_[rank]->load_named_state(names, parts);
  }
  three.one_->load_named_state(three.names(three.whole_), saved);
  for (int step = 0; step < 5; ++step) three.step(step, 1);
  three.check();
}

INSTANTIATE_TEST_SUITE_P(All, LoadedState, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "joined" : "in_parts"; });

TEST(Shard, TakesFromPartsWhatItUpdatesAndRefusesGaps) {
  AdamWJob two(2, AdamWOptions(0.1), torch::kFloat);
  two.shard();
  for (int step = 0; step < 2; ++step) two.step(step, 1);
  const auto names = two.names(two.parameters_[0]);
  const NamedState mine = two.optimizers_[0]->named_state(names);
  const NamedState others = two.optimizers_[1]->named_state(two.names(two.parameters_[1]));
  two.optimizers_[0]->load_named_state(names, std::vector<NamedState>{mine});  // needs no other rank's part
  for (const auto& [name, state] : two.optimizers_[0]->named_state(names)) EXPECT_EQ(state.end, mine.at(name).end);
  EXPECT_THROW(two.optimizers_[0]->load_named_state(names, std::vector<NamedState>{others}), Error);
  EXPECT_THROW(two.optimizers_[0]->load_named_state(names, std::vector<NamedState>{mine, mine}), Error);
}

TEST(Shard, UpdatesTheOthersByTheirGradients) {
  at::Tensor inside = torch::ones({8}).set_requires_grad(true);
  at::Tensor outside = torch::ones({8}).set_requires_grad(true);
  SGD optimizer(std::vector<at::Tensor>{inside, outside}, SGDOptions(0.5));
  optimizer.shard({FusedSegment{{inside}, {0}, 0, 8}});
  inside.mutable_grad() = torch::ones({8});
  outside.mutable_grad() = torch::ones({8});
  optimizer.step_local(StepOptions{});
  EXPECT_TRUE(torch::equal(inside, torch::ones({8})));
  EXPECT_TRUE(torch::equal(outside, torch::full({8}, 0.5)));
}

TEST(Shard, CountsAWriteForAutograd) {
  at::Tensor weight = torch::ones({8}).set_requires_grad(true);
  SGD optimizer(std::vector<at::Tensor>{weight}, SGDOptions(0.5));
  optimizer.shard({FusedSegment{{weight}, {0}, 0, 8}});
  const at::Tensor loss = weight.mul(weight).sum();
  std::vector<float> gradient(8, 1);
  void* source = gradient.data();
  SegmentUpdate update;
  update.weights = update.weights_out = weight.data_ptr();
  update.gradient.sources = &source;
  optimizer.update_segment(0, update);
  // As after any in-place update: the graph was recorded with older weights.
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(ShardErrors, NameWhatIsWrong) {
  const at::Tensor a = torch::zeros({8}).set_requires_grad(true);
  const at::Tensor b = torch::zeros({8}).set_requires_grad(true);
  const at::Tensor c = torch::zeros({8}, torch::kDouble).set_requires_grad(true);
  const at::Tensor stranger = torch::zeros({8}).set_requires_grad(true);
  const std::vector<std::vector<FusedSegment>> wrong{
      {{{a}, {0, 16}, 0, 8}},                // offsets
      {{{a, b}, {0, 4}, 0, 16}},             // overlap
      {{{a, c}, {0, 8}, 0, 16}},             // two dtypes
      {{{stranger}, {0}, 0, 8}},             // not of the optimizer
      {{{a}, {0}, 0, 8}, {{a}, {0}, 0, 8}},  // twice
      {{{a}, {0}, 8, 0}},                    // no range
  };
  for (const auto& segments : wrong) {
    SGD optimizer(std::vector<at::Tensor>{a, b, c}, SGDOptions(0.5));
    EXPECT_THROW(optimizer.shard(segments), Error);
    EXPECT_FALSE(optimizer.is_sharded());
  }
  SGD optimizer(std::vector<at::Tensor>{a, b}, SGDOptions(0.5));
  optimizer.shard({{{a, b}, {0, 16}, 0, 32}});
  EXPECT_THROW(optimizer.shard({{{a}, {0}, 0, 8}}), Error);
  EXPECT_THROW(optimizer.update_segment(0, SegmentUpdate{}), Error);
  torch::serialize::OutputArchive archive;
  EXPECT_THROW(optimizer.save(archive), Error);
}

TEST(MergeStates, RefusesGapsOverlapsAndOtherSteps) {
  const auto part = [](std::int64_t begin, std::int64_t end, std::int64_t step) {
    ParameterState state;
    state.sizes = {2, 5};
    state.begin = begin;
    state.end = end;
    state.step = step;
    state.tensors["exp_avg"] = torch::arange(begin, end, torch::kFloat);
    return NamedState{{"weight", state}};
  };
  const NamedState merged = merge_states({part(4, 10, 3), part(0, 4, 3)});
  EXPECT_TRUE(torch::equal(merged.at("weight").tensors.at("exp_avg"), torch::arange(10, torch::kFloat).view({2, 5})));
  EXPECT_THROW(merge_states({part(0, 4, 3), part(5, 10, 3)}), Error);
  EXPECT_THROW(merge_states({part(0, 4, 3), part(3, 10, 3)}), Error);
  EXPECT_THROW(merge_states({part(0, 4, 3), part(4, 10, 2)}), Error);
  EXPECT_THROW(merge_states({part(0, 4, 3)}), Error);
}

}  // namespace
}  // namespace lockstep
