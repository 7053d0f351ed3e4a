// Programs that write weights of which bf16 copies are published: no forward may read an old copy in silence.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "tests/parallel/fused/copied_model.h"

namespace lockstep {
namespace {

using CopyProgram = std::function<void(CopiedModel&, std::vector<double>& losses)>;

class FuseBf16Write : public ::testing::TestWithParam<const char*> {};
class FuseBf16SharedWrite : public FuseBf16Write {};

std::string copy_engine(const ::testing::TestParamInfo<const char*>& test) { return test.param; }
INSTANTIATE_TEST_SUITE_P(Engines, FuseBf16Write, ::testing::Values("thread", "gloo"), copy_engine);
INSTANTIATE_TEST_SUITE_P(EnginesLong, FuseBf16Write, ::testing::Values("shm"), copy_engine);
INSTANTIATE_TEST_SUITE_P(Engines, FuseBf16SharedWrite, ::testing::Values("thread", "shm"), copy_engine);

// Losses and weights have the bits of a training that casts in every forward.
void expect_as_with_casts(const std::string& engine, int world_size, const CopyProgram& program) {
  fuse_ranks(engine, world_size, [&](const Group& group) {
    std::vector<std::vector<at::Tensor>> ends;
    std::vector<std::vector<double>> losses(2);
    for (const bool publishes : {false, true}) {
      CopiedModel it(group, publishes);
      program(it, losses[publishes ? 1 : 0]);
      ends.push_back(it.values());
    }
    EXPECT_EQ(losses[0], losses[1]);
    for (std::size_t i = 0; i < ends[0].size(); ++i) EXPECT_TRUE(torch::equal(ends[0][i], ends[1][i])) << i;
  });
}

void note_loss(CopiedModel& it, int step, std::vector<double>& losses) {
  const torch::NoGradGuard no_grad;
  losses.push_back(it.loss(step).item<double>());
}

TEST_P(FuseBf16Write, WritesThatAutogradCountsAreReadAtOnce) {
  for (const int world_size : {1, 3}) {
    expect_as_with_casts(GetParam(), world_size, [](CopiedModel& it, std::vector<double>& losses) {
      it.train(0);
      const std::vector<at::Tensor> before = it.values();
      it.train(1);
      it.barrier();
      std::size_t next = 0;
      it.write([&](at::Tensor& parameter) { parameter.copy_(before[next++]); });  // the same on every rank
      it.barrier();
      note_loss(it, 2, losses);
      it.train(2);
      note_loss(it, 3, losses);
      // One element, far from those that the watch looks at.
      it.barrier();
      it.write([](at::Tensor& parameter) { parameter.view({-1}).narrow(0, parameter.numel() / 3 + 1, 1).fill_(3); });
      it.barrier();
      note_loss(it, 3, losses);
      it.train(3);
      it.train(4);
    });
  }
}

TEST_P(FuseBf16Write, WritesPastAutogradAreReadIfTheyChangeAWholeWeight) {
  expect_as_with_casts(GetParam(), 2, [](CopiedModel& it, std::vector<double>& losses) {
    it.train(0);
    it.barrier();
    for (const at::Tensor& parameter : it.net->parameters()) parameter.data().mul_(0.5);
    it.barrier();
    note_loss(it, 1, losses);
    it.train(1);
    it.train(2);
  });
}

TEST_P(FuseBf16Write, LoadedWeightsAreReadAtOnce) {
  expect_as_with_casts(GetParam(), 2, [](CopiedModel& it, std::vector<double>& losses) {
    std::ostringstream file;
    torch::save(std::shared_ptr<torch::nn::Module>(it.net), file);
    it.train(0);
    std::shared_ptr<torch::nn::Module> module = it.net;
    std::istringstream stream(file.str());
    torch::load(module, stream);
    note_loss(it, 1, losses);
    it.train(1);
    it.train(2);
    note_loss(it, 3, losses);
  });
}

// An average is swapped in, evaluated and swapped back.
TEST_P(FuseBf16Write, OwnWeightsAreRead) {
  expect_as_with_casts(GetParam(), 2, [](CopiedModel& it, std::vector<double>& losses) {
    std::vector<at::Tensor> average = it.values();
    for (int step = 0; step < 3; ++step) {
      it.train(step);
      const std::vector<at::Tensor> backup = it.values();
      for (std::size_t i = 0; i < average.size(); ++i) average[i].lerp_(backup[i], 0.5);
      it.ddp.fused_step().own_weights();
      std::size_t next = 0;
      it.write([&](at::Tensor& parameter) { parameter.copy_(average[next++]); });
      note_loss(it, step, losses);
      next = 0;
      it.write([&](at::Tensor& parameter) { parameter.copy_(backup[next++]); });
      note_loss(it, step, losses);
    }
  });
}

void expect_copy_error(const std::string& engine, int world_size, const std::function<void(CopiedModel&)>& program,
                       const std::string& part) {
  fuse_ranks(engine, world_size, [&](const Group& group) {
    CopiedModel it(group, true);
    const std::string text = fuse_error([&] { program(it); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("\"query.weight\""), std::string::npos) << text;
  });
}

// Neither the watch nor autograd sees this write; the update does, of any element and on every rank.
TEST_P(FuseBf16Write, AWriteThatNothingSeesIsAnErrorOfTheNextStep) {
  for (const int world_size : {1, 2}) {
    for (const std::int64_t element : {7, 400}) {
      expect_copy_error(
          GetParam(), world_size,
          [&](CopiedModel& it) {
            it.train(0);
            it.barrier();
            if (it.is_writer()) it.net->query->weight().data_ptr<float>()[element] = 3;
            it.barrier();
            it.train(1);
            it.train(2);
          },
          "forward has read its bf16 copy without that write");
    }
  }
}

// Rank 0 has written to memory of its own, so rank 0 has read the write, and rank 1 has not.
TEST_P(FuseBf16SharedWrite, AWriteOfOneRankIsAnErrorOfThatStep) {
  expect_copy_error(
      GetParam(), 2,
      [&](CopiedModel& it) {
        it.train(0);
        it.barrier();
        if (it.group->rank() == 0) {
          const torch::NoGradGuard no_grad;
          it.net->query->weight().view({-1}).narrow(0, 7, 1).fill_(3);
        }
        it.barrier();
        it.train(1);
      },
      "rank 1 has other values there than rank 0");
}

TEST(FuseBf16, AGraphOfWeightsThatWereUpdatedIsAnError) {
  fuse_ranks("thread", 1, [](const Group& group) {
    CopiedModel it(group, true);
    it.train(0);
    const at::Tensor old = it.net->forward(bf16_net_input(0, 5)).sum();
    it.train(1);
    EXPECT_THROW(old.backward(), c10::Error);  // as in fp32: "modified by an inplace operation"
  });
}

// own_weights gives the weights other memory. Two backwards of one step then read what was written, and so does an
// evaluation between them.
TEST_P(FuseBf16Write, AfterOwnWeightsReachesEveryForwardOfTheStep) {
  expect_as_with_casts(GetParam(), 2, [](CopiedModel& it, std::vector<double>& losses) {
    it.train(0);
    it.ddp.fused_step().own_weights();
    it.write([](at::Tensor& parameter) { parameter.mul_(1.5); });
    it.optimizer.zero_grad();
    for (const int micro : {1, 2}) {
      const at::Tensor loss = it.loss(micro);
      losses.push_back(loss.item<double>());
      loss.backward();
    }
    {
      const torch::NoGradGuard no_grad;
      losses.push_back(it.loss(3).item<double>());
    }
    it.optimizer.step();
    it.train(4);
  });
}

// An evaluation with other weights, which are put back: no update sees them.
TEST_P(FuseBf16Write, OfElementsThatAreNoSampleReachesAnEvaluation) {
  expect_as_with_casts(GetParam(), 1, [](CopiedModel& it, std::vector<double>& losses) {
    it.train(0);
    const std::vector<at::Tensor> before = it.values();
    it.write([](at::Tensor& parameter) { parameter.data().flatten().narrow(0, 1, 1).mul_(3); });
    {
      const torch::NoGradGuard no_grad;
      losses.push_back(it.loss(1).item<double>());
    }
    std::size_t i = 0;
    it.write([&](at::Tensor& parameter) { parameter.data().copy_(before[i++]); });
    it.train(2);
  });
}

}  // namespace
}  // namespace lockstep
