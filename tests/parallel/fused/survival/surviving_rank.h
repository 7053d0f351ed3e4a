// A rank of a small fused training that may lose others, for tests that let ranks die at chosen instructions of an
// update.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "lockstep/comm/single.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/worlds/job_memory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/fused/survival/failing_group.h"

namespace lockstep {

constexpr int kIn = 300, kOut = 200;  // each of three ranks updates 314 blocks
constexpr int kSurvivedSteps = 5;
constexpr int kDeadlyStep = 2;
constexpr std::int64_t kShards = 5;

using Optimizers = std::function<std::unique_ptr<FlatOptimizer>(const torch::nn::Linear&)>;

inline std::unique_ptr<FlatOptimizer> make_adam(const torch::nn::Linear& model) {
  return std::make_unique<Adam>(model->parameters(), torch::optim::AdamOptions(0.01).amsgrad(true));
}

/// When gradients are clipped: never, by clip_grad_norm_, or in the step.
enum class Clip { Never, Before, InStep };

inline void run_step(DistributedDataParallel<torch::nn::Linear>& ddp, FlatOptimizer& optimizer, int step, Clip clip,
                     const std::function<void()>& before_update) {
  ddp.run_shards(static_cast<std::uint64_t>(step), [&](std::int64_t shard) {
    const torch::Tensor batch = fuse_batch(static_cast<int>(shard), step, kIn);
    ddp(batch.to(ddp.module()->weight.scalar_type())).square().sum().backward();
  });
  if (clip == Clip::Before) lockstep::clip_grad_norm_(ddp.module()->parameters(), 1);
  before_update();
  StepOptions options;
  options.max_norm = clip == Clip::InStep ? 1 : 0;
  options.zero_grad = true;
  optimizer.step_with(options);
}

inline DistributedDataParallelOptions on_shards(const Group& group) {
  DistributedDataParallelOptions options = fuse_on(group);
  options.virtual_shards = kShards;
  return options;
}

inline std::vector<torch::Tensor> result_of(const torch::nn::Linear& model, const FlatOptimizer& optimizer) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : model->parameters()) result.push_back(parameter.detach().clone());
  for (const auto& [name, state] : optimizer.named_state(model->named_parameters().pairs())) {
    result.push_back(torch::tensor(state.step));
    for (const auto& [kind, tensor] : state.tensors) result.push_back(tensor.clone());
  }
  return result;
}

inline std::vector<torch::Tensor> undisturbed(const Optimizers& make, Clip clip) {
  Membership alone;
  alone.peers.emplace_back();
  const torch::nn::Linear model = make_linear(kIn, kOut);
  const auto optimizer = make(model);
  DistributedDataParallel<torch::nn::Linear> ddp(model, on_shards(make_single_communicator(alone)));
  for (int step = 0; step < kSurvivedSteps; ++step) run_step(ddp, *optimizer, step, clip, [] {});
  return result_of(model, *optimizer);
}

/// A rank that continues without lost ones. Which these are is part of each test.
class SurvivingRank {
 public:
  struct Options {
    std::vector<std::vector<int>> lost = {};  // in this order, and which of them at once
    Clip clip = Clip::InStep;
    bool memory_stays = true;
    bool continues = false;  // with what earlier ranks left in the memory
    std::string engine = "shm";
    CallCounters counters = nullptr;  // set: the first group is a FailingGroup
    bool in_two_buckets = false;      // the weight and the bias
  };
  SurvivingRank(const Membership& membership, Optimizers make, int memory, const Options& options)
      : membership_(membership),
        lost_(options.lost),
        clip_(options.clip),
        stays_(options.memory_stays),
        in_two_buckets_(options.in_two_buckets),
        make_(std::move(make)),
        model_(make_linear(kIn, kOut)),
        optimizer_(make_(model_)),
        engine_(options.engine),
        group_(make_communicator(engine_, membership)),
        failing_(options.counters == nullptr ? nullptr : std::make_shared<FailingGroup>(group_, options.counters)),
        rescue_(*optimizer_,
                {[this](const std::exception_ptr& failure) { return regroup(failure); },
                 [this](InterruptedUpdate* update) { return meet(update); }},
                {std::make_shared<JobMemoryMap>(memory), stays_}) {
    if (failing_) group_ = failing_;
    if (options.continues) rescue_.adopt(true, /*may_be_unfinished=*/true);
  }

  const torch::nn::Linear& model() const { return model_; }
  FlatOptimizer& optimizer() { return *optimizer_; }
  int rank() const { return membership_.rank; }
  const LastingMemory& memory() const { return *rescue_.state()->memory(); }
  FailingGroup& failing_group() { return *failing_; }

  // @param harm  what happens to this rank before the update of kDeadlyStep
  void train(const std::function<void(SurvivingRank&)>& harm) {
    for (int step = 0; step < kSurvivedSteps;) {
      DistributedDataParallelOptions options = on_shards(group_);
      options.init_sync = !rescue_.adopts();
      if (in_two_buckets_) options.bucket_cap_mb = 0.01;
      auto ddp = std::make_unique<DistributedDataParallel<torch::nn::Linear>>(model_, options);
      ASSERT_EQ(ddp->fuse(*optimizer_).mode(), FuseMode::SharedWeights) << ddp->fused_step().reason();
      if (rescue_.may_be_unfinished()) step = static_cast<int>(rescue_.memory()->header().number.load());
      rescue_.adopt(false);
      for (has_changed_ = false; step < kSurvivedSteps && !has_changed_;) {
        try {
          run_step(*ddp, *optimizer_, step, clip_, [&] {
            if (step == kDeadlyStep && !was_there_) harm(*this);
          });
          if (has_changed_) ++finished_;
          ++step;
        } catch (const std::exception& error) {
          if (!has_changed_) regroup(std::current_exception());
        }
      }
      was_there_ = was_there_ || step >= kDeadlyStep;
      if (step == kSurvivedSteps && !has_changed_) ddp->fused_step().unfuse();
      ddp.reset();
      meet();
      if (stays_ && step < kSurvivedSteps) {
        rescue_.adopt(true);
      } else {
        rescue_.take_whole();
      }
    }
    const auto wanted = undisturbed(make_, clip_), mine = result_of(model_, *optimizer_);
    ASSERT_EQ(mine.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(torch::equal(mine[i], wanted[i])) << "tensor " << i;
  }
  // Steps that this rank finished without a lost one.
  int finished() const { return finished_; }

 private:
  Group regroup(const std::exception_ptr& failure) {
    if (lost_so_far_ == lost_.size()) std::rethrow_exception(failure);
    for (const int gone : lost_[lost_so_far_++]) {
      ::kill(membership_.peers[static_cast<std::size_t>(gone)].pid, SIGKILL);  // if it stands still
    }
    failing_.reset();
    Membership next = membership_;
    next.peers.clear();
    for (const Peer& peer : membership_.peers) {
      const auto end = lost_.begin() + static_cast<std::ptrdiff_t>(lost_so_far_);
      const auto is_among = [&](const std::vector<int>& ranks) {
        return std::find(ranks.begin(), ranks.end(), peer.global_rank) != ranks.end();
      };
      if (std::any_of(lost_.begin(), end, is_among)) continue;
      if (peer.global_rank == rank()) next.rank = static_cast<int>(next.peers.size());
      next.peers.push_back(peer);
    }
    next.world_size = static_cast<int>(next.peers.size());
    next.group = "world-" + std::to_string(lost_so_far_);
    next.store = std::make_shared<PrefixStore>(membership_.store, next.group);
    group_ = next.world_size == 1 ? make_single_communicator(next) : make_communicator(engine_, next);
    has_changed_ = true;
    return group_;
  }
  bool meet(InterruptedUpdate* update = nullptr) {
    const bool is_finished = met_ != lost_so_far_ && meet_after_loss(*group_, update);
    met_ = lost_so_far_;
    return is_finished;
  }

  Membership membership_;
  std::vector<std::vector<int>> lost_;
  Clip clip_;
  bool stays_, in_two_buckets_;
  std::size_t lost_so_far_ = 0, met_ = 0;
  Optimizers make_;
  torch::nn::Linear model_;
  std::unique_ptr<FlatOptimizer> optimizer_;
  std::string engine_;
  Group group_;
  std::shared_ptr<FailingGroup> failing_;
  UpdateRescue rescue_;
  bool has_changed_ = false, was_there_ = false;
  int finished_ = 0;
};

/// Protects the page `part` (0 to 1) of the way through a piece of memory, never the first or last one.
inline void protect(const void* memory, std::size_t bytes, double part, int how) {
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(memory) / page + 1;
  const std::uintptr_t pages = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page - first;
  ASSERT_GT(pages, 4U);
  const auto at = (first + static_cast<std::uintptr_t>(part * static_cast<double>(pages - 1))) * page;
  ASSERT_EQ(::mprotect(reinterpret_cast<void*>(at), page, how), 0);
}

inline void die_without_core() { ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 0), 0); }

/// The state that this rank updates, or the weights of the same elements.
struct OwnMemory {
  const std::byte* data;
  std::size_t bytes;
};
inline OwnMemory own_memory(SurvivingRank& rank, const std::string& kind) {
  const ParameterState state = rank.optimizer().named_state(rank.model()->named_parameters().pairs()).at("weight");
  if (kind == "weights") {
    const torch::Tensor& weight = rank.model()->weight;
    const auto element_bytes = static_cast<std::int64_t>(weight.element_size());
    return {static_cast<const std::byte*>(weight.data_ptr()) + state.begin * element_bytes,
            static_cast<std::size_t>((state.end - state.begin) * element_bytes)};
  }
  const torch::Tensor& tensor = state.tensors.at(kind);
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace lockstep
