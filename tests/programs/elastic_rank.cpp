// A rank of a small training that survives lost ranks by lockstep::on_rank_change, on four virtual shards.
//   elastic_rank [fuse|accelerate|loop|MISTAKE] STEPS [RANK STEP PLACE]...
// With fuse its updates are fused; with accelerate they are those of an Accelerator; with loop its loop is the
// deprecated lockstep::elastic_loop. Mistakes: with early it calls init_process_group before, with twice it asks for a
// second loop, with unfinished the loop ends without finish, and with uneven rank 0 ends it one step before others;
// with no-buffers and no-optimizer (fused) the state has none; with other-rates each rank chooses a learning rate in
// step 5; with late-exchange, and fuse-late-exchange, ranks meet after the update, and in step 5 rank 1 kills itself
// before; with fuse-caught-loss the step catches what the update throws; with skips-RANK, and fuse-skips-RANK, that
// rank does nothing in step 5. With data the state has numbered rows to compare; with other-data those of rank 1 are in
// another order; with joiner-data those of a process that takes a lost rank's place.
//
// Rank RANK of the start kills itself in step STEP at PLACE: start (of the step), shard (in its last
// shard), gradients (it has them, and has not updated), writing (in a fused update, at its first weight) or update (it
// has updated). If PLACE is say, it prints "in step" and the step's number instead, once, in its first step from STEP
// on; if it is slow, the steps from STEP on take longer while there are fewer than RANK ranks, so that others have time
// to join, until one of them has failed and left the file that FAILED_TO_JOIN names. If PLACE is tell, each process
// prints process=PID in its first step from STEP on, whatever RANK. Rank 0 of the end prints the bits of weights and
// optimizer as a number, and how many ranks there were. If CHECKPOINT names a file, rank 0 of the end writes it, and if
// it is there already, rank 0 of the start continues from it, which the others do not read.
#include <signal.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/elastic/elastic_loop.h"
#include "lockstep/elastic/on_rank_change.h"
#include "lockstep/models/mlp.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/accelerator.h"
#include "tests/programs/rank_programs.h"
#include "tests/support/memory/die_at_first_write.h"

namespace elastic_rank {
namespace {

struct Death {
  std::string rank;
  std::int64_t step = 0;
  std::string place;
  bool was_said = false;
};
std::vector<Death> deaths;

// The time that a step takes until the ranks are complete: of a process that joins, most passes before it asks.
constexpr std::chrono::milliseconds kSlowStep{30};

bool has_failed_to_join() {
  const char* const file = std::getenv("FAILED_TO_JOIN");
  return file != nullptr && std::filesystem::exists(file);
}

void maybe_wait(std::int64_t step, int ranks) {
  for (const Death& each : deaths) {
    if (each.place == "slow" && step >= each.step && ranks < std::stoi(each.rank) && !has_failed_to_join()) {
      std::this_thread::sleep_for(kSlowStep);
    }
  }
}

void maybe_say(std::int64_t step) {
  for (Death& each : deaths) {
    const bool tells = each.place == "tell", says = each.place == "say" && each.rank == std::getenv("RANK");
    if (each.was_said || step < each.step || !(tells || says)) continue;
    if (tells) std::printf("process=%d\n", static_cast<int>(::getpid()));
    if (says) std::printf("in step %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
    each.was_said = true;
  }
}

bool dies_at(std::int64_t step, const std::string& place) {
  if (std::getenv("LOCKSTEP_MEMBER") != nullptr) return false;  // it took a lost rank's place
  return std::any_of(deaths.begin(), deaths.end(), [&](const Death& death) {
    return death.rank == std::getenv("RANK") && death.step == step && death.place == place;
  });
}

void maybe_die(std::int64_t step, const std::string& place) {
  if (dies_at(step, place)) ::raise(SIGKILL);
}

std::uint64_t mixed(std::uint64_t hash, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().contiguous();
  const auto* const bytes = static_cast<const unsigned char*>(plain.data_ptr());
  for (std::size_t i = 0; i < plain.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ULL;
  return hash;
}

// With buffers, which a forward changes before the step is made.
struct Net : torch::nn::Module {
  Net() : norm(register_module("norm", torch::nn::BatchNorm1d(8))) {
    lockstep::MlpOptions sizes;
    sizes.features = 8;
    sizes.hidden = {16};
    sizes.classes = 3;
    mlp = register_module("mlp", lockstep::Mlp(sizes));
  }
  at::Tensor forward(const at::Tensor& x) { return mlp->forward(norm->forward(x)); }

  torch::nn::BatchNorm1d norm;
  lockstep::Mlp mlp{nullptr};
};

// The steps of one group. A wrapper is `forward`, what runs the shards of an update, `backward`, and the optimizer's
// step.
struct Wrapper {
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::function<void(std::int64_t step, const std::function<void(std::int64_t shard)>& body)> run_shards;
  std::function<void(const at::Tensor& loss)> backward;
  std::function<void()> step;
  std::int64_t last_shard = 0;  // of this rank
};

// How many steps were begun and made: what no tensor holds.
struct Counts {
  std::int64_t begun = 0, made = 0;
};

void make_step(std::int64_t step, int ranks, const Wrapper& wrapper, const at::Tensor& first_weight, Counts& counts) {
  ++counts.begun;
  maybe_say(step);
  maybe_wait(step, ranks);
  maybe_die(step, "start");
  wrapper.run_shards(step, [&](std::int64_t shard) {
    if (shard == wrapper.last_shard) maybe_die(step, "shard");
    const at::Tensor numbers = torch::arange(step * 4 + shard, step * 4 + shard + 16).fmod(7).view({2, 8});
    const at::Tensor labels = torch::tensor({(step + shard) % 3, (step * shard) % 3}, torch::kLong);
    wrapper.backward(torch::nn::functional::cross_entropy(wrapper.forward(numbers.to(torch::kFloat)), labels));
  });
  maybe_die(step, "gradients");
  if (dies_at(step, "writing")) lockstep::die_at_first_write(first_weight);
  wrapper.step();
  ++counts.made;
  maybe_die(step, "update");
}

bool is_rank_0_of_the_start() {
  const std::string rank = std::getenv("RANK");
  return rank == "0" && std::getenv("LOCKSTEP_MEMBER") == nullptr;
}

constexpr int kShards = 4;

using Group = std::shared_ptr<lockstep::Communicator>;
using Ddp = lockstep::DistributedDataParallel<std::shared_ptr<Net>>;

// A training: what the loop changes, and the ranks that it has seen.
struct Training {
  std::shared_ptr<Net> model = std::make_shared<Net>();
  lockstep::Adam optimizer{model->parameters(), torch::optim::AdamOptions(1e-2)};
  Counts counts;
  std::string mistake;
  int most_ranks = 0, least_ranks = 100, last_rank = -1;

  lockstep::ElasticState state() {
    lockstep::ElasticState all;
    all.tensors = model->parameters();
    if (mistake != "no-buffers") {
      for (const at::Tensor& buffer : model->buffers()) all.tensors.push_back(buffer);
    }
    if (mistake != "no-optimizer") all.optimizers = {&optimizer};
    all.save = [this] { return std::to_string(counts.begun) + " " + std::to_string(counts.made); };
    all.load = [this](const std::string& bytes) { std::istringstream(bytes) >> counts.begun >> counts.made; };
    if (mistake.find("data") != std::string::npos) all.data = {rows()};
    all.first_step = counts.made;
    all.most_ranks = kShards;
    return all;
  }

  std::shared_ptr<const lockstep::Dataset> rows() const {
    const bool has_joined = std::getenv("LOCKSTEP_MEMBER") != nullptr;
    const bool differs = (mistake == "other-data" && std::string(std::getenv("RANK")) == "1") ||
                         (mistake == "joiner-data" && has_joined);
    const at::Tensor numbers = torch::arange(100);
    return std::make_shared<lockstep::TensorDataset>(
        lockstep::Batch{{"number", differs ? numbers.flip(0).contiguous() : numbers}});
  }

  void save(const std::string& file) {
    std::vector<at::Tensor> tensors = state().tensors;
    tensors.push_back(torch::tensor({counts.made}));
    torch::save(tensors, file);
    torch::save(optimizer, file + ".optimizer");
  }
  void load(const std::string& file) {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> saved, mine = state().tensors;
    torch::load(saved, file);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i].copy_(saved[i]);
    counts.begun = counts.made = saved.back().item<std::int64_t>();
    torch::load(optimizer, file + ".optimizer");
  }

  lockstep::DistributedDataParallelOptions on_shards_of(const Group& group) {
    most_ranks = std::max(most_ranks, group->world_size());
    least_ranks = std::min(least_ranks, group->world_size());
    last_rank = group->rank();
    lockstep::DistributedDataParallelOptions options;
    options.process_group = group;
    options.virtual_shards = kShards;
    return options;
  }

  std::unique_ptr<Ddp> wrapped_for(const Group& group, bool fuses) {
    auto ddp = std::make_unique<Ddp>(model, on_shards_of(group));
    if (fuses && ddp->fuse(optimizer).mode() != lockstep::FuseMode::SharedWeights) {
      throw std::runtime_error("not fused: " + ddp->fused_step().reason());
    }
    return ddp;
  }

  Wrapper steps_of(Ddp& ddp) {
    return {[&](const at::Tensor& x) { return ddp(x); },
            [&](std::int64_t step, const std::function<void(std::int64_t)>& body) {
              ddp.run_shards(static_cast<std::uint64_t>(step), body);
            },
            [](const at::Tensor& loss) { loss.backward(); }, [this] { update(); }, ddp.shards().end - 1};
  }

  void update() {
    try {
      optimizer.step();
    } catch (const std::exception&) {
      if (mistake != "fuse-caught-loss") throw;
    }
  }

  void make(std::int64_t step, const Group& group, const Wrapper& wrapper) {
    if (step == 5 && mistake.find("skips-" + std::to_string(group->rank())) != std::string::npos) return;
    make_step(step, group->world_size(), wrapper, model->parameters().front(), counts);
    if (mistake == "late-exchange" || mistake == "fuse-late-exchange") {
      if (step == 5 && group->rank() == 1) ::raise(SIGKILL);
      group->barrier();
    }
    if (mistake == "other-rates" && step == 5) {
      static_cast<torch::optim::AdamOptions&>(optimizer.param_groups().front().options()).lr(1.0 / (8 + group->rank()));
    }
  }
};

// What belongs to a group.
struct OfGroup {
  std::shared_ptr<void> owned;
  Wrapper wrapper;
};

OfGroup accelerated_for(const Group& group, Training& training) {
  lockstep::AcceleratorOptions options;
  options.cpu = true;
  options.ddp = training.on_shards_of(group);
  struct Parts {
    explicit Parts(const lockstep::AcceleratorOptions& how, Training& of)
        : accelerator(how), prepared(accelerator.prepare(of.model, of.optimizer)) {}
    lockstep::Accelerator accelerator;
    decltype(accelerator.prepare(training.model, training.optimizer)) prepared;
  };
  const auto parts = std::make_shared<Parts>(options, training);
  lockstep::Accelerator& accelerator = parts->accelerator;
  auto& net = std::get<0>(parts->prepared);
  auto& steps = std::get<1>(parts->prepared);
  return {
      parts,
      {[&](const at::Tensor& x) { return net(x); },
       [&](std::int64_t step, const std::function<void(std::int64_t)>& body) {
         accelerator.run_shards(net, static_cast<std::uint64_t>(step), body);
       },
       [&](const at::Tensor& loss) { accelerator.backward(loss); }, [&] { steps.step(); }, net.ddp().shards().end - 1}};
}

OfGroup made_for(const Group& group, Training& training, const std::string& how) {
  if (how == "accelerate") return accelerated_for(group, training);
  const std::shared_ptr<Ddp> ddp = training.wrapped_for(group, how.rfind("fuse", 0) == 0 || how == "no-optimizer");
  return {ddp, training.steps_of(*ddp)};
}

void make_steps(std::int64_t steps, Training& training, const std::string& how) {
  auto run =
      lockstep::on_rank_change(training.state(), [&](const Group& group) { return made_for(group, training, how); });
  if (how == "uneven" && run.group()->rank() == 0) --steps;
  while (run.step() < steps) {
    run.make_step([&](OfGroup& made) { training.make(run.step(), run.group(), made.wrapper); });
  }
  if (how != "unfinished") run.finish();
}

void make_steps_in_elastic_loop(std::int64_t steps, Training& training) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  lockstep::elastic_loop(steps, training.state(), [&](lockstep::ElasticSteps& now) {
    const OfGroup made = made_for(now.group(), training, "fuse");
    while (now.next()) training.make(now.step(), now.group(), made.wrapper);
  });
#pragma GCC diagnostic pop
}

int run(std::int64_t steps, const std::string& how) {
  torch::manual_seed(1);
  Training training;
  const char* const checkpoint = std::getenv("CHECKPOINT");
  if (checkpoint != nullptr && std::filesystem::exists(checkpoint) && is_rank_0_of_the_start()) {
    training.load(checkpoint);
  }
  const std::set<std::string> mistakes{"no-buffers",         "no-optimizer",     "other-rates", "late-exchange",
                                       "fuse-late-exchange", "fuse-caught-loss", "skips-0",     "skips-1",
                                       "fuse-skips-0",       "fuse-skips-1",     "data",        "other-data",
                                       "joiner-data"};
  if (mistakes.count(how) != 0) training.mistake = how;
  if (how == "early") lockstep::init_process_group();
  how == "loop" ? make_steps_in_elastic_loop(steps, training) : make_steps(steps, training, how);
  if (how == "twice") make_steps(steps, training, how);
  if (training.counts.begun != steps || training.counts.made != steps) {
    throw std::runtime_error("began " + std::to_string(training.counts.begun) + " steps, and made " +
                             std::to_string(training.counts.made));
  }
  std::uint64_t hash = 14695981039346656037ULL;
  for (const at::Tensor& tensor : training.state().tensors) hash = mixed(hash, tensor);
  lockstep::NamedParameters names;
  for (const auto& parameter : training.model->named_parameters())
    names.emplace_back(parameter.key(), parameter.value());
  for (const auto& [name, of_parameter] : training.optimizer.named_state(names)) {
    for (const auto& [kind, tensor] : of_parameter.tensors) hash = mixed(hash, tensor);
  }
  if (training.last_rank == 0) {
    if (checkpoint != nullptr) training.save(checkpoint);
    std::printf("bits %016llx, ranks %d to %d\n", static_cast<unsigned long long>(hash), training.least_ranks,
                training.most_ranks);
  }
  lockstep::destroy_process_group();
  return 0;
}

}  // namespace
}  // namespace elastic_rank

int run_elastic_rank(int count, char** words) {
  using namespace elastic_rank;
  try {
    const std::string how = count > 2 && std::isdigit(words[1][0]) == 0 ? words[1] : "";
    const int first = how.empty() ? 1 : 2;
    for (int i = first + 1; i + 2 < count; i += 3) {
      deaths.push_back({words[i], std::stoll(words[i + 1]), words[i + 2]});
    }
    return run(std::stoll(words[first]), how);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    const char* const file = std::getenv("FAILED_TO_JOIN");
    if (file != nullptr && std::getenv("LOCKSTEP_MEMBER") != nullptr) std::ofstream(file) << '\n';
    return 1;
  }
}
