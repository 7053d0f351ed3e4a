// Tests how programs of LibTorch call networks and backward: two ranks must end with the weights of one process over
// all samples, without fuse and in every stage in which the page allows the loop.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/parallel/loops/loop_run.h"

namespace lockstep {
namespace {

at::Tensor accumulated(const LoopRun& run, bool is_in_no_sync) {
  return plain_loop(run, [&](LoopNet& net, const LoopRun& it, int step) {
    for (int part = 0; part < 3; ++part) {
      std::optional<DistributedDataParallelBase::NoSync> off;
      if (is_in_no_sync && part < 2 && net.wrapper() != nullptr) off.emplace(net.wrapper()->no_sync());
      (net.mean_loss(it, 3 * step + part) / 3).backward();
    }
  });
}

const std::vector<Loop> kForwardLoops = {
    {"plain", LoopWay::Stage3,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) { net.mean_loss(it, step).backward(); });
     }},
    {"arrow_or_module", LoopWay::Stage2,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         const at::Tensor x = it.inputs(step);
         const at::Tensor y = step % 3 == 0 ? net(x) : step % 3 == 1 ? net.by_arrow(x) : net.module()->forward(x);
         (y - it.targets(step)).pow(2).mean().backward();
       });
     }},
    {"two_backwards_of_a_forward", LoopWay::Stage3,
     [](const LoopRun& run) {
       return plain_loop(
           run,
           [](LoopNet& net, const LoopRun& it, int step) {
             const at::Tensor y = net(it.inputs(step));
             y.select(1, 0).pow(2).mean().backward({}, /*retain_graph=*/true);
             (y.select(1, 1) - 1).pow(2).mean().backward();
           },
           2);
     }},
    {"accumulated", LoopWay::Stage3, [](const LoopRun& run) { return accumulated(run, false); }},
    {"accumulated_in_no_sync", LoopWay::Stage3, [](const LoopRun& run) { return accumulated(run, true); }},
    {"a_hook_of_a_parameter", LoopWay::OwnCopies,
     [](const LoopRun& run) {
       LoopNet net(run, loop_net());
       net.module()->parameters()[0].register_hook([](const at::Tensor& gradient) { return gradient * 0.5; });
       SGD optimizer(net.module()->parameters(), loop_rate(0.1));
       net.fuse(optimizer);
       for (int step = 0; step < kLoopSteps; ++step) {
         optimizer.zero_grad();
         net.mean_loss(run, step).backward();
         optimizer.step();
       }
       return net.end();
     }},
    {"penalties_of_weights", LoopWay::Stage2,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         at::Tensor loss = net.mean_loss(it, step);
         for (const at::Tensor& each : net.module()->parameters()) loss = loss + 0.01 * each.pow(2).sum();
         loss.backward();
       });
     }},
    {"a_penalty_of_its_own_on_each_rank", LoopWay::Stage2,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         net.mean_loss(it, step).backward();
         at::Tensor penalty = torch::zeros({}, torch::kDouble);
         const double factor = it.group ? 0.02 * static_cast<double>(it.rank()) : 0.01;  // 0.01 in the average
         for (const at::Tensor& each : net.module()->parameters()) penalty = penalty + factor * each.pow(2).sum();
         penalty.backward();
       });
     }},
    {"rank_0_evaluates", LoopWay::Stage2,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         if (it.rank() == 0 && it.group) {
           net.wrapper()->eval();
           const torch::NoGradGuard no_grad;
           EXPECT_TRUE(net(it.inputs(77)).isfinite().all().item<bool>());
           net.wrapper()->train();
         }
         net.mean_loss(it, step).backward();
       });
     }},
    {"recurrent", LoopWay::Stage3,
     [](const LoopRun& run) {
       return plain_loop(
           run,
           [](LoopNet& net, const LoopRun& it, int step) {
             at::Tensor state = it.inputs(step), loss = torch::zeros({}, torch::kDouble);
             for (int time = 0; time < 4; ++time) {
               state = net(state);
               loss = loss + (state - 0.1 * time).pow(2).mean();
             }
             loss.backward();
           },
           4);
     }},
    {"truncated_in_time", LoopWay::Stage3,
     [](const LoopRun& run) {
       at::Tensor state = run.inputs(0);
       return plain_loop(
           run,
           [&state](LoopNet& net, const LoopRun& it, int step) {
             state = net(state.detach() + it.inputs(step));
             state.pow(2).mean().backward();
           },
           4);
     }},
    {"layers_that_are_frozen_now_and_then", LoopWay::OwnCopies,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         net.mean_loss(it, step).backward();
         for (at::Tensor& each : net.module()->ptr(2)->parameters()) each.requires_grad_(step % 2 == 1);
       });
     }},
    {"a_part_of_the_output", LoopWay::Stage3,
     [](const LoopRun& run) {
       return plain_loop(
           run,
           [](LoopNet& net, const LoopRun& it, int step) {
             const at::Tensor y = net(it.inputs(step));
             at::Tensor loss = y.select(1, 0).pow(2).mean();
             if (it.rank() == 0) loss = loss + 0 * y.sum();
             loss.backward();
           },
           2);
     }},
    {"forwards_without_backward", LoopWay::Stage3,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         const at::Tensor unused = net(it.inputs(step + 20));
         net.mean_loss(it, step).backward();
       });
     }},
};

class LoopsOfForwards : public ::testing::TestWithParam<Loop> {};

TEST_P(LoopsOfForwards, MakeTheWeightsOfOneProcess) { expect_weights_of_one_process(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Table, LoopsOfForwards, ::testing::ValuesIn(kForwardLoops),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
