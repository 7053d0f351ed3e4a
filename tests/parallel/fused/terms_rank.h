// A rank with a small net, whose optimizer has two parameter groups, and is fused in one of several ways.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {

struct TermsCase {
  const char* name;
  const char* engine;
  int stage = 1;
  bool shares = true;
  bool has_shards = false;
};

struct TermsNetImpl : torch::nn::Module {
  TermsNetImpl() {
    register_module("body", body);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head->forward(torch::tanh(body->forward(x))); }
  torch::nn::Linear body = make_linear(6, 5), head = make_linear(5, 2);
};
TORCH_MODULE(TermsNet);

// Weights in one parameter group, biases in another.
template <typename Options>
std::vector<torch::optim::OptimizerParamGroup> two_groups(const TermsNet& net, const Options& options) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const std::vector<at::Tensor>& parameters :
       {std::vector<at::Tensor>{net->body->weight, net->head->weight}, {net->body->bias, net->head->bias}}) {
    groups.emplace_back(parameters, std::make_unique<Options>(options));
  }
  return groups;
}

inline FuseOptions fuse_options_of(const TermsCase& how) {
  FuseOptions options;
  options.stage = how.stage;
  options.share_weights = how.shares;
  if (how.stage == 3) options.units = {"body", "head"};
  return options;
}

inline DistributedDataParallelOptions wrap_options_of(const TermsCase& how, const Group& group) {
  DistributedDataParallelOptions options = fuse_on(group);
  options.bucket_cap_mb = 0.0001;  // each parameter is a bucket of its own: backward makes several calls
  if (how.has_shards) options.virtual_shards = 4;
  return options;
}

template <typename Optimizer>
struct TermsRank {
  using Options = typename Optimizer::Options;
  TermsRank(const TermsCase& how, const Group& on, const Options& options, bool is_fused = true)
      : group(on), ddp(net, wrap_options_of(how, group)), optimizer(two_groups(net, options), options) {
    if (is_fused) {
      EXPECT_NE(ddp.fuse(optimizer, fuse_options_of(how)).mode(), FuseMode::Off) << ddp.fused_step().reason();
    }
  }
  void backward(int step) {
    const auto part = [&](int number) { ddp(fuse_batch(number, step, 6)).pow(2).mean().backward(); };
    if (ddp.shards().end == ddp.shards().begin) return part(group->rank());
    ddp.run_shards(static_cast<std::uint64_t>(step), [&](std::int64_t shard) { part(static_cast<int>(shard)); });
  }
  void set_option(std::size_t in_group, const std::string& name, double value) {
    auto all = optimizer.group_options();
    all[in_group].at(name) = value;
    optimizer.load_group_options(all);
  }

  Group group;
  TermsNet net;
  DistributedDataParallel<TermsNet> ddp;
  Optimizer optimizer;
};
using TermsSgd = TermsRank<SGD>;
using TermsAdam = TermsRank<Adam>;

inline torch::optim::SGDOptions terms_sgd() { return torch::optim::SGDOptions(0.1).momentum(0.9); }

inline void expect_terms(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\n  is not in\n" << text;
}

inline constexpr TermsCase kOneCopy{"one_copy", "thread"};

}  // namespace lockstep
