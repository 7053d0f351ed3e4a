// Tests updates of ranges of a segment whose state lies in memory that ranks share, with and without an undo log.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/update/fused_segment.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

constexpr std::int64_t kNumel = 64;
const std::vector<std::int64_t> kOffsets{0, 24, 48};  // the parameters leave gaps
const std::vector<std::int64_t> kSizes{17, 24, 10};

/// Weights, gradients and state of one segment, all of it this process's.
struct SharedSegment {
  torch::Tensor weights = torch::linspace(-1, 1, kNumel);
  torch::Tensor gradients = torch::linspace(3, -2, kNumel);
  std::vector<torch::Tensor> parameters;
  std::vector<torch::Tensor> state;

  SharedSegment() {
    for (std::size_t i = 0; i < kSizes.size(); ++i) parameters.push_back(weights.narrow(0, kOffsets[i], kSizes[i]));
  }
  FusedSegment segment() {
    FusedSegment result{parameters, kOffsets, 0, kNumel / 2};
    result.allocate_state = [this] {
      state.push_back(torch::full({kNumel}, 99.0F));
      state.back().slice(0, kNumel / 2).zero_();  // as another rank does, which updates these
      return state.back();
    };
    return result;
  }
};

/// What outlives a process: see UndoLog.
struct SharedUndo {
  std::vector<std::byte> slots = std::vector<std::byte>(UndoLog::slots_bytes(sizeof(float)));
  std::atomic<std::uint64_t> word{0};

  UndoLog log(const SharedSegment& of) {
    UndoLog log;
    log.arrays[log.num_arrays++] = static_cast<std::byte*>(of.weights.data_ptr());
    for (const torch::Tensor& buffer : of.state)
      log.arrays[log.num_arrays++] = static_cast<std::byte*>(buffer.data_ptr());
    log.element_bytes = sizeof(float);
    log.slots = slots.data();
    log.word = &word;
    log.number = 1;
    return log;
  }
};

void update_in_ranges(FlatOptimizer& optimizer, SharedSegment& of, const std::vector<bool>& skip,
                      const std::vector<std::int64_t>& cuts, bool with_undo = true) {
  void* source = of.gradients.data_ptr();
  SharedUndo undo;
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    SegmentUpdate update;
    update.gradient.sources = &source;
    update.skip = skip;
    update.weights = update.weights_out = of.weights.data_ptr();
    update.range = {cuts[k], cuts[k + 1], with_undo ? undo.log(of) : UndoLog()};
    optimizer.update_segment(0, update);
  }
  SegmentUpdate all;
  all.skip = skip;
  optimizer.update_segment(0, all);
}

// LibTorch's own arithmetic: each parameter by itself, without memory that is shared.
template <typename Optimizer, typename Options>
void expect_same_as_one_by_one(const Options& options) {
  SharedSegment shared;
  Optimizer by_ranges(shared.parameters, options);
  by_ranges.shard({shared.segment()});
  SharedSegment plain;
  Optimizer whole(plain.parameters, options);
  for (int step = 0; step < 4; ++step) {
    std::vector<bool> skip(kSizes.size(), false);
    skip[1] = step == 1 || step == 2;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const torch::Tensor gradient = plain.gradients.narrow(0, kOffsets[i], kSizes[i]);
      plain.parameters[i].mutable_grad() = skip[i] ? torch::Tensor() : gradient.clone();
    }
    whole.step();
    update_in_ranges(by_ranges, shared, skip, {0, 5, 20, 30, 50, kNumel}, step % 2 == 0);
    EXPECT_TRUE(torch::equal(shared.weights, plain.weights)) << "step " << step;
  }
  const NamedParameters names{{"a", shared.parameters[0]}, {"b", shared.parameters[1]}, {"c", shared.parameters[2]}};
  const NamedParameters theirs{{"a", plain.parameters[0]}, {"b", plain.parameters[1]}, {"c", plain.parameters[2]}};
  const NamedState mine = by_ranges.named_state(names), wanted = whole.named_state(theirs);
  for (const char* name : {"a", "b"}) {  // the first half of the elements is this rank's
    EXPECT_EQ(mine.at(name).step, wanted.at(name).step);
    for (const auto& [kind, tensor] : mine.at(name).tensors) {
      const torch::Tensor part = wanted.at(name).tensors.at(kind).flatten().slice(0, 0, mine.at(name).end);
      EXPECT_TRUE(torch::equal(tensor.flatten(), part)) << name << "." << kind;
    }
  }
}

TEST(SharedState, RangesGiveTheBitsOfWholeParameters) {
  expect_same_as_one_by_one<Adam>(torch::optim::AdamOptions(0.1));
  expect_same_as_one_by_one<AdamW>(torch::optim::AdamWOptions(0.1).amsgrad(true));
  expect_same_as_one_by_one<SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.3));
  expect_same_as_one_by_one<SGD>(torch::optim::SGDOptions(0.1));
}

TEST(SharedState, StateThatIsNotUpdatedStays) {
  SharedSegment shared;
  Adam optimizer(shared.parameters, torch::optim::AdamOptions(0.1).amsgrad(true));
  optimizer.shard({shared.segment()});
  update_in_ranges(optimizer, shared, {}, {0, kNumel});
  const torch::Tensor before = shared.state.at(2).clone();
  static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options()).amsgrad(false);
  update_in_ranges(optimizer, shared, {}, {0, kNumel});
  EXPECT_TRUE(torch::equal(shared.state[2], before));
}

TEST(SharedState, RefusesOptionsThatNeedMore) {
  SharedSegment shared;
  Adam optimizer(shared.parameters, torch::optim::AdamOptions(0.1));
  optimizer.shard({shared.segment()});
  static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options()).amsgrad(true);
  expect_error("need more state", [&] { update_in_ranges(optimizer, shared, {}, {0, kNumel}); });
  const NamedParameters names{{"a", shared.parameters[0]}, {"b", shared.parameters[1]}, {"c", shared.parameters[2]}};
  expect_error("load_named_state", [&] { optimizer.load_named_state(names, NamedState()); });
}

}  // namespace
}  // namespace lockstep
