// A rank of a small training by Trainer that survives lost ranks, on four virtual shards.
//   trainer_rank FOLDER STEPS [START WHAT VALUE]...
// What holds for start START of the ranks alone, from 0, or for all of them (*):
//   weights N, frozen N   another seed of the weights, or of those that are not trained; rank: each rank has its own
//   buffers N             another value of a buffer at the start
//   rows N, data N        a number of samples, another seed of them
//   length N              what the program says of its data
//   rate X, fuse 0, resume FOLDER|true    training arguments
//   metrics 1             metrics.jsonl is written, after the callback that dies when something is logged
//   model negated         another class with the same weights
//   slow N                each step takes longer while there are fewer than N ranks
//   die RANKS:STEP:PLACE  these ranks, such as 0, 01 or 012, kill themselves once STEP updates are done, at PLACE:
//                         start (of the next one), gradients (they have those of the next one), writing (at the first
//                         weight that the next one writes, if it is fused), updated, logged, saved, ended (all
//                         have the training's result); or, with 0 for STEP, passing: when they pass the training's
//                         state on to a process that has joined, or giving: while they pass it on to ranks that are
//                         behind after a loss
//   await STEP            rank 1 waits for a message of rank 2, which never comes, when STEP updates are logged
//   throw STEP            a callback throws once STEP updates are done
//   stop STEP             each rank is asked to stop (SIGTERM) once STEP updates are done
// Rank 0 of the end prints the bits of weights and buffers as a number, and those of what it has logged of each step.
#include <signal.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/train/metrics_log_callback.h"
#include "lockstep/train/trainer.h"
#include "tests/programs/rank_programs.h"
#include "tests/support/memory/die_at_first_write.h"

namespace trainer_rank {
namespace {

namespace ls = lockstep;

struct Word {
  std::string start, what, value;
};
std::vector<Word> words;

// All values of `what` for this start.
std::vector<std::string> values_of(const std::string& what) {
  const char* const variable = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const std::string start = variable == nullptr ? "0" : variable;
  std::vector<std::string> values;
  for (const Word& word : words) {
    if (word.what == what && (word.start == "*" || word.start == start)) values.push_back(word.value);
  }
  return values;
}

std::string value_of(const std::string& what, const std::string& otherwise) {
  const auto values = values_of(what);
  return values.empty() ? otherwise : values.back();
}

std::uint64_t seed_of(const std::string& what) {
  const std::string value = value_of(what, "1");
  return std::stoull(value == "rank" ? std::getenv("RANK") : value);
}

constexpr std::int64_t kPageFloats = 1024;

// With weights that are not trained, and buffers that each forward changes.
struct Net : torch::nn::Module {
  Net() : norm(register_module("norm", torch::nn::BatchNorm1d(8))) {
    norm->running_mean.fill_(std::stod(value_of("buffers", "0")));
    torch::manual_seed(seed_of("frozen"));
    frozen = register_module("frozen", torch::nn::Linear(8, 64));
    for (at::Tensor& parameter : frozen->parameters()) parameter.requires_grad_(false);
    torch::manual_seed(seed_of("weights"));
    trained = register_module("trained", torch::nn::Linear(64, 96));
    head = register_module("head", torch::nn::Linear(96, 3));
    unused = register_buffer("unused", torch::zeros({3 * kPageFloats}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return head->forward(activated(trained->forward(frozen->forward(norm->forward(x)))));
  }
  virtual at::Tensor activated(const at::Tensor& features) { return torch::tanh(features); }

  torch::nn::BatchNorm1d norm;
  torch::nn::Linear frozen{nullptr}, trained{nullptr}, head{nullptr};
  at::Tensor unused;  // has a whole page of memory
};

struct Negated : Net {
  at::Tensor activated(const at::Tensor& features) override { return -torch::tanh(features); }
};

class Rows : public ls::Dataset {
 public:
  std::int64_t size() const override { return rows_; }

 private:
  ls::Example do_get(std::int64_t index) const override {
    const at::Tensor x = torch::arange(index * first_, index * first_ + 8).fmod(7).to(torch::kFloat);
    return {{"x", x}, {"labels", torch::tensor((index * index + 1) % 3, torch::kLong)}};
  }
  std::int64_t rows_ = std::stoll(value_of("rows", "64"));
  std::int64_t first_ = static_cast<std::int64_t>(seed_of("data")) * 3;
};

class Faults : public ls::TrainerCallback {
 public:
  explicit Faults(std::shared_ptr<Net> net) : net_(std::move(net)) {}
  void on_step_begin(ls::TrainerEvent& event) override {
    if (value_of("throw", "") == std::to_string(event.state.global_step)) {
      throw std::runtime_error("a callback of this program has failed");
    }
    if (value_of("stop", "") == std::to_string(event.state.global_step)) ::raise(SIGTERM);
    if (ls::default_group()->world_size() < std::stoi(value_of("slow", "0"))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    maybe_die(event.state.global_step, "start");
    ranks_ = ls::default_group()->world_size();
  }
  void on_pre_optimizer_step(ls::TrainerEvent& event) override {
    maybe_die(event.state.global_step, "gradients");
    if (dies_at(event.state.global_step, "writing")) lockstep::die_at_first_write(net_->trained->weight);
  }
  void on_optimizer_step(ls::TrainerEvent& event) override { maybe_die(event.state.global_step, "updated"); }
  void on_save(ls::TrainerEvent& event) override { maybe_die(event.state.global_step, "saved"); }
  void on_train_end(ls::TrainerEvent& event) override { maybe_die(event.state.global_step, "ended"); }
  void on_log(ls::TrainerEvent& event) override {
    const std::shared_ptr<ls::Communicator>& group = ls::default_group();
    maybe_die(event.state.global_step, "logged");
    const bool waits = value_of("await", "") == std::to_string(event.state.global_step);
    if (waits && group->rank() == 1 && group->world_size() > 2) group->recv(torch::zeros({1}), 2);
  }
  std::string name() const override { return "faults"; }
  std::string state() const override {
    if (ranks_ > 0 && ls::default_group()->world_size() > ranks_) maybe_die(0, "passing");
    // The next thing that it does to them is to restore them, once what is in this text has been sent.
    const bool gives = ls::default_group()->world_size() < ranks_ && dies_at(0, "giving");
    if (gives) lockstep::die_at_first_write(net_->unused.narrow(0, kPageFloats, kPageFloats));
    return "{}";
  }

 private:
  // @param step  updates that are done
  static bool dies_at(std::int64_t step, const std::string& place) {
    if (std::getenv("LOCKSTEP_MEMBER") != nullptr) return false;  // it took a lost rank's place
    for (const std::string& death : values_of("die")) {
      const auto colon = death.find(':');
      const bool is_it = death.substr(0, colon).find(std::getenv("RANK")) != std::string::npos;
      if (is_it && death.substr(colon + 1) == std::to_string(step) + ":" + place) return true;
    }
    return false;
  }
  static void maybe_die(std::int64_t step, const std::string& place) {
    if (dies_at(step, place)) ::raise(SIGKILL);
  }

  std::shared_ptr<Net> net_;
  int ranks_ = 0;  // in the last step; 0: there was none
};

class Bits {
 public:
  void add(const void* data, std::size_t size) {
    const auto* const bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * 1099511628211ULL;
  }
  void add(const at::Tensor& tensor) {
    const at::Tensor plain = tensor.detach().contiguous();
    add(plain.data_ptr(), plain.nbytes());
  }
  unsigned long long value() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037ULL;
};

Bits bits_of(const Net& net) {
  Bits bits;
  for (const at::Tensor& parameter : net.parameters()) bits.add(parameter);
  for (const at::Tensor& buffer : net.buffers()) bits.add(buffer);
  return bits;
}

Bits bits_of(const std::vector<ls::LogEntry>& log) {
  Bits bits;
  for (const ls::LogEntry& entry : log) {
    bits.add(&entry.step, sizeof(entry.step));
    for (const auto& [name, value] : entry.values) {
      if (name != "loss" && name != "grad_norm" && name != "learning_rate") continue;
      bits.add(name.data(), name.size());
      bits.add(&value, sizeof(value));
    }
  }
  return bits;
}

int run(const std::string& folder, std::int64_t steps) {
  const bool is_negated = value_of("model", "") == "negated";
  const std::shared_ptr<Net> net = is_negated ? std::make_shared<Negated>() : std::make_shared<Net>();
  ls::TrainerOptions options;
  options.model = ls::adapt(
      net, [](Net& module, const ls::Batch& batch) { return module.forward(batch.at("x")); },
      [](const at::Tensor& output, const ls::Batch& batch) {
        return ls::smoothed_cross_entropy(output, batch.at("labels"), 0);
      });
  options.train_dataset = std::make_shared<Rows>();
  options.data_arguments["length"] = value_of("length", "8");
  options.callbacks = {std::make_shared<Faults>(net)};
  if (value_of("metrics", "0") == "1") options.callbacks.push_back(std::make_shared<ls::MetricsLogCallback>());
  options.args.output_dir = folder;
  options.args.per_device_train_batch_size = 2;
  options.args.max_steps = steps;
  options.args.logging_steps = 1;
  options.args.save_steps = static_cast<double>(steps / 3);
  options.args.learning_rate = std::stod(value_of("rate", "0.01"));
  options.args.fuse = value_of("fuse", "1") == "1";
  options.args.virtual_shards = 4;
  options.args.survive_lost_ranks = true;
  const std::string resume = value_of("resume", "");
  if (!resume.empty()) options.args.resume_from_checkpoint = resume;
  {
    ls::Trainer trainer(options);
    trainer.train();
    if (trainer.is_world_process_zero()) {
      std::printf("bits %016llx log %016llx\n", bits_of(*net).value(), bits_of(trainer.state().log_history).value());
    }
  }
  ls::destroy_process_group();
  return 0;
}

}  // namespace
}  // namespace trainer_rank

int run_trainer_rank(int count, char** arguments) {
  using namespace trainer_rank;
  try {
    for (int i = 3; i + 2 < count; i += 3) words.push_back({arguments[i], arguments[i + 1], arguments[i + 2]});
    return run(arguments[1], std::stoll(arguments[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
