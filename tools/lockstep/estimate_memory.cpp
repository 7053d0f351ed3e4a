// `lockstep estimate-memory`: the memory that training a model needs on each rank, and what uses it.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text/precision_name.h"
#include "lockstep/base/text/size_text.h"
#include "lockstep/models/registry.h"
#include "tools/frame/subcommand.h"
#include "tools/models/memory_estimate.h"

namespace lockstep {
namespace {

struct EstimateRow {
  std::string dtype;
  int stage = 0;
  MemoryParts rank;
  MemoryParts host;
};

const char* stage_text(int stage) {
  switch (stage) {
    case 0:
      return "0 nothing";
    case 1:
      return "1 optimizer";
    case 2:
      return "2 + gradients";
    default:
      return "3 + weights";
  }
}

std::string count_text(std::int64_t parameters) {
  if (parameters < 100000) return fmt::format("{}", parameters);
  const auto number = static_cast<double>(parameters);
  return parameters < 1'000'000'000 ? fmt::format("{:.1f} million", number / 1e6)
                                    : fmt::format("{:.1f} billion", number / 1e9);
}

// A host seldom has more than eight devices; the ranks of a large job fill their hosts evenly.
int likely_ranks_per_host(int world_size) {
  constexpr int kMost = 8;
  int ranks = std::min(world_size, kMost);
  while (world_size % ranks != 0) --ranks;
  return ranks;
}

// Every model that has a name, one a line.
std::string models_text() {
  std::string text = "Models:\n";
  for (const ModelInfo& model : registered_models()) text += fmt::format("  {:<13} {}\n", model.name, model.summary);
  for (const Gpt3Size& size : gpt3_sizes()) {
    text += fmt::format("  {:<13} GPT-3, {} layers of {}\n", size.name, size.layers, size.hidden);
  }
  return text;
}

class EstimateMemory : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("model", question_.model,
                   "one of the models below, or a model's folder: its config.json is enough, weights are not read")
        ->required();
    app.add_option("--world-size", world_size_, "number of ranks")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000000));
    app.add_option("--nproc-per-node", ranks_per_host_, "ranks of each host; default: all, but at most 8")
        ->check(CLI::Range(1, 1024));
    app.add_option("--stage", stages_,
                   "what is sharded, as ZeRO counts: 0 nothing (DDP), 1 the optimizer's state (fused steps), 2 also "
                   "gradients (--fsdp shard_grad_op), 3 also weights (--fsdp full_shard); default: all stages")
        ->delimiter(',')
        ->check(CLI::Range(0, 3));
    app.add_option("--dtypes", dtypes_, "float32, or bf16: float32 weights, computed with in bf16 by autocast")
        ->delimiter(',')
        ->capture_default_str()
        ->transform([](const std::string& text) {
          const std::string name = precision_name(text);
          return name == "fp32" ? "float32" : name;
        })
        ->check(CLI::IsMember({"float32", "bf16"}));
    app.add_option("--batch", question_.batch, "samples of each rank in a step")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", question_.sequence_length, "tokens of each text; default: the model's")
        ->check(CLI::PositiveNumber);
    app.add_option("--optim", optimizer_, "adamw, sgd (no state) or momentum (SGD with it)")
        ->capture_default_str()
        ->check(CLI::IsMember({"adamw", "sgd", "momentum"}));
    app.add_flag("--gradient-checkpointing", question_.gradient_checkpointing, "recompute activations in backward");
    app.add_flag("--fit", question_.fit,
                 "of a GPT-3: activations by dry runs of small models, though its own is possible");
    app.add_flag("--json", json_, "print one JSON object");
    show_examples(app, {"lockstep estimate-memory bert-base --batch 16 --seq 128",
                        "lockstep estimate-memory reviews --world-size 2 --stage 1",
                        "lockstep estimate-memory gpt3-175b --world-size 1024 --batch 1 --seq 2048",
                        "for m in small medium large xl 2.7b 6.7b 13b 175b; do lockstep estimate-memory gpt3-$m "
                        "--world-size 64 --batch 1; done"});
    app.footer(models_text() + "\n" + app.get_footer());
  }

  int run(const CommandStreams& streams) override {
    has_ranks_per_host_ = ranks_per_host_ > 0;
    if (!has_ranks_per_host_) ranks_per_host_ = likely_ranks_per_host(world_size_);
    if (world_size_ % ranks_per_host_ != 0) {
      throw UsageError(
          fmt::format("--world-size {} is not possible with --nproc-per-node {}", world_size_, ranks_per_host_),
          "command line", "give a multiple of --nproc-per-node");
    }
    if (stages_.empty()) stages_ = world_size_ == 1 ? std::vector<int>{0} : std::vector<int>{0, 1, 2, 3};
    const std::int64_t optimizer_bytes = optimizer_ == "adamw" ? 8 : optimizer_ == "momentum" ? 4 : 0;
    std::vector<EstimateRow> rows;
    ModelMemory model;
    for (const std::string& dtype : dtypes_) {
      question_.bf16 = dtype == "bf16";
      model = measure_model_memory(question_);
      for (const int stage : stages_) {
        rows.push_back({dtype, stage, memory_of_rank(model, optimizer_bytes, stage, world_size_),
                        memory_of_host(model, optimizer_bytes, stage, hosts(), ranks_per_host_)});
      }
    }
    json_ ? print_json(model, rows, streams.out) : print_table(model, rows, streams.out);
    return 0;
  }

 private:
  void print_json(const ModelMemory& model, const std::vector<EstimateRow>& rows, std::ostream& to) const {
    nlohmann::ordered_json out{{"model", question_.model},
                               {"parameters", model.parameters},
                               {"largest_layer", model.largest_layer},
                               {"world_size", world_size_},
                               {"batch", question_.batch},
                               {"optim", optimizer_},
                               {"activations", model.activations_are_fitted ? "fitted" : "measured"}};
    out["nproc_per_node"] = ranks_per_host_;
    for (const EstimateRow& row : rows) {
      out["bytes_per_rank"].push_back(json_of(row, row.rank));
      out["bytes_per_host"].push_back(json_of(row, row.host));
    }
    fmt::print(to, "{}\n", out.dump(2));
  }

  static nlohmann::ordered_json json_of(const EstimateRow& row, const MemoryParts& memory) {
    return {{"dtype", row.dtype},
            {"stage", row.stage},
            {"weights", memory.weights},
            {"gradients", memory.gradients},
            {"optimizer", memory.optimizer},
            {"buckets", memory.buckets},
            {"activations", memory.activations},
            {"total", memory.total()}};
  }

  static void print_rows(const std::vector<EstimateRow>& rows, MemoryParts EstimateRow::*which, std::ostream& to) {
    fmt::print(to, "{:<8} {:<14} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", "dtype", "stage", "weights", "gradients",
               "optimizer", "buckets", "activations", "total");
    for (const EstimateRow& row : rows) {
      const MemoryParts& m = row.*which;
      fmt::print(to, "{:<8} {:<14} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", row.dtype, stage_text(row.stage),
                 memory_text(m.weights), memory_text(m.gradients), memory_text(m.optimizer),
                 m.buckets == 0 ? "-" : memory_text(m.buckets), memory_text(m.activations), memory_text(m.total()));
    }
  }

  void print_table(const ModelMemory& model, const std::vector<EstimateRow>& rows, std::ostream& to) const {
    fmt::print(to, "{}: {} parameters, {} of weights, largest layer {}\n", question_.model,
               count_text(model.parameters), memory_text(model.weights), memory_text(model.largest_layer));
    fmt::print(to, "on each of {} rank(s), {} sample(s) each, {}\n\n", world_size_, question_.batch, optimizer_);
    print_rows(rows, &EstimateRow::rank, to);
    if (world_size_ > 1) {
      fmt::print(
          to,
          "\non each of {} host(s), its {} rank(s) together, which share one copy of the weights from stage 1 on\n\n",
          hosts(), ranks_per_host_);
      print_rows(rows, &EstimateRow::host, to);
    }
    print_notes(model, to);
  }

  void print_notes(const ModelMemory& model, std::ostream& to) const {
    if (world_size_ > 1 && !has_ranks_per_host_) {
      fmt::print(to, "\nNo --nproc-per-node: {}.\n",
                 hosts() == 1 ? "all ranks are on one host"
                              : fmt::format("{} rank(s) are on each of {} hosts", ranks_per_host_, hosts()));
    }
    fmt::print(to, "\nActivations: what a forward pass leaves for backward, {}.\n",
               model.activations_are_fitted ? "by a fit to dry runs of small models of this kind" : "by a dry run");
    fmt::print(to, "Not in it: the program itself, and what operators take for a moment.\n");
    const auto shows = [&](int stage) {
      return world_size_ > 1 && std::find(stages_.begin(), stages_.end(), stage) != stages_.end();
    };
    if (std::find(dtypes_.begin(), dtypes_.end(), "bf16") != dtypes_.end()) {
      fmt::print(
          to,
          "bf16: stage 0 casts weights in each forward. From stage 1 on, updates publish the copies that layers read: "
          "they are among the weights.\n");
    }
    if (shows(1)) fmt::print(to, "Stage 1 is what fused steps do.\n");
    if (shows(2)) fmt::print(to, "Stage 2 is --fsdp shard_grad_op, or FuseOptions::stage.\n");
    if (shows(3) && hosts() == 1) {
      fmt::print(to, "On one host, whose ranks share memory, stage 3 is stage 2: the weights are there once anyway.\n");
    }
    if (shows(3)) {
      fmt::print(
          to, "Stage 3 is --fsdp full_shard; each rank also has two layers of weights, and those that are in none.\n");
    }
  }

  int hosts() const { return world_size_ / ranks_per_host_; }

  MemoryQuestion question_;
  int world_size_ = 1;
  int ranks_per_host_ = 0;
  bool has_ranks_per_host_ = false;
  std::vector<int> stages_;
  std::vector<std::string> dtypes_{"float32"};
  std::string optimizer_ = "adamw";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_estimate_memory() { return std::make_unique<EstimateMemory>(); }

}  // namespace lockstep
